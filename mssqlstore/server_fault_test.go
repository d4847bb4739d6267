package mssqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// lossy drops a connection once its server has answered: the request is done, and the client does not learn it.
type lossy struct {
	arm  atomic.Bool
	only atomic.Pointer[string] // requests that contain this
	cuts atomic.Int64
	sent atomic.Int64 // writes of the client
}

type lossyConn struct {
	net.Conn
	l   *lossy
	cut bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	c.l.sent.Add(1)
	if only := c.l.only.Load(); only != nil && bytes.Contains(b, wide(*only)) && c.l.arm.CompareAndSwap(true, false) {
		c.cut = true
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut && err == nil {
		c.l.cuts.Add(1)
		c.Conn.Close()
		return 0, errors.New("the answer was lost")
	}
	return n, err
}

// wide encodes text as a request has it.
func wide(text string) (b []byte) {
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func lossyStore(t *testing.T) (*lossy, *Store) {
	t.Helper()
	l, o := &lossy{}, apart(t)
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &lossyConn{Conn: c, l: l}, err
	}
	at := testserver.SQLServer(t)
	if strings.Contains(strings.ToLower(at), "encrypt=") && !strings.Contains(strings.ToLower(at), "encrypt=disable") {
		t.Skip("this SQL Server does not let the tests read what is sent: its URL has encrypt=")
	}
	s, err := Open(at, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	mustHold(t, s, mutex("first")) // it connects, reads the tables and begins its sessions
	mustAsk(t, s, mutex("first"))
	return l, s
}

func TestWhenAnAnswerIsLostNothingIsSentTwiceAndTheRepeatIsRight(t *testing.T) {
	t.Parallel()
	l, s := lossyStore(t)
	lose := func(what, statement string, f func() error) {
		t.Helper()
		cuts := l.cuts.Load()
		l.only.Store(&statement)
		l.arm.Store(true)
		if err := f(); !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
			t.Errorf("%s: %v, want indeterminate", what, err)
		}
		if l.cuts.Load() != cuts+1 {
			t.Errorf("%s: got %d lost answers, want one", what, l.cuts.Load()-cuts)
		}
	}
	table := s.b.o.locks()
	claim, waiter := mutex("n"), mutex("n")
	lose("ask", "INSERT INTO "+table, func() error { _, err := s.Ask(t.Context(), claim); return err })
	h := mustHold(t, s, claim) // this process has had it all the time
	lose("ask for a position", "UPDATE "+table, func() error { _, err := s.Ask(t.Context(), waiter); return err })
	mustAsk(t, s, waiter)
	if n := len(state(t, s, "n").Entries); n != 2 {
		t.Errorf("got %d entries, want 2", n)
	}
	lose("release", "UPDATE "+table, func() error { return s.Release(t.Context(), h) })
	if err := s.Release(t.Context(), h); err != nil && !errors.Is(err, store.ErrLost) {
		t.Errorf("the repeated release: %v, want nil, or ErrLost as the hold is gone", err)
	}
	if a := mustAsk(t, s, waiter); !a.Granted || a.Token <= h.Token {
		t.Errorf("the next claim: got %+v after token %d", a, h.Token)
	}
}

// While nobody else wants the lock, acquire and release are one request each, and one request renews all holds of the process.
func TestAnUncontendedLockTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	l, s := lossyStore(t)
	s.b.Sweeps.Pause()
	trips := func(what string, want int64, f func()) {
		t.Helper()
		var took int64
		for range 10 { // a session may be renewed in between
			before := l.sent.Load()
			f()
			if took = l.sent.Load() - before; took == want {
				return
			}
		}
		t.Errorf("%s: got %d round trips, want %d", what, took, want)
	}
	c := mutex("n")
	trips("ask and release", 2, func() {
		c.ID = me.NewID()
		if err := s.Release(t.Context(), mustHold(t, s, c)); err != nil {
			t.Fatal(err)
		}
	})
	var holds []store.Hold
	for i := range 50 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("many/", i))))
	}
	trips("renew 50", 1, func() {
		for _, r := range s.Renew(t.Context(), holds) {
			if r.Err != nil {
				t.Error(r)
			}
		}
	})
}

// A request that still waits in the server when its caller leaves is canceled there, and can be undone by its id.
func TestACanceledRequestBlocksNothingAndCanBeUndone(t *testing.T) {
	t.Parallel()
	o := apart(t)
	var both []*Store
	for range 2 {
		s, err := Open(testserver.SQLServer(t), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		both = append(both, s)
	}
	s, other := both[0], both[1]
	h := mustHold(t, s, mutex("n"))
	mustAsk(t, other, mutex("first"))
	w := mutex("n")
	tx, _ := begun(t, testserver.SQLServer(t))
	if _, err := tx.ExecContext(t.Context(), "UPDATE "+s.b.o.locks()+" SET idle=idle"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err := other.Ask(ctx, w)
	cancel()
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ask: %v, want indeterminate, at its deadline", err)
	}
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Errorf("renewal of the hold in the locked row: %v", err)
	}
	tx.Rollback()
	until(t, "only the hold is left", func() bool {
		if err := other.Release(t.Context(), store.Hold{Name: "n", ID: w.ID}); err != nil {
			t.Fatal(err)
		}
		st := state(t, s, "n")
		return len(st.Entries) == 1 && st.Entries[0].ID == h.ID
	})
}

// A session whose row somebody has locked does not block the renewal, the end or the check of any other session.
func TestALockedSessionDelaysNoOtherSession(t *testing.T) {
	eachWay(t, func(t *testing.T, url string) {
		b := openOn(t, url, apartOn(t, url))
		var ids []session.ID
		for range 4 {
			id := session.NewID()
			if _, err := b.Begin(t.Context(), id, time.Hour); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		mustExec(t, b.db, fmt.Sprintf("UPDATE %s SET expires=1 WHERE id=0x%x", b.o.sessions(), ids[1][:]))
		tx, _ := begun(t, url)
		if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET calls=calls WHERE id=0x%x", b.o.sessions(), ids[0][:])); err != nil {
			t.Fatal(err)
		}
		if left, err := b.Left(t.Context(), ids[1:3]); err != nil || left[0] > 0 || left[1] <= 0 {
			t.Errorf("got %v left, %v", left, err)
		}
		if _, err := b.Renew(t.Context(), ids[2]); err != nil {
			t.Error(err)
		}
		if _, err := b.Begin(t.Context(), session.NewID(), time.Hour); err != nil {
			t.Error(err)
		}
		if err := b.End(t.Context(), ids[3]); err != nil {
			t.Error(err)
		}
	})
}

// All holds of a locked session move into another session.
func TestAHoldIsKeptIfItsSessionIsLocked(t *testing.T) {
	eachWay(t, func(t *testing.T, url string) {
		o := apartOn(t, url)
		all, err := o.filled()
		if err != nil {
			t.Fatal(err)
		}
		storetest.LockedSession(t, storetest.Lockable[session.ID]{
			Open: func(t *testing.T) store.Store {
				s, err := Open(url, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
			Sessions: func(s store.Store) []session.ID { return s.(*Store).Sessions() },
			Lock: func(t *testing.T, id session.ID) {
				tx, _ := begun(t, url)
				if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET calls=calls WHERE id=0x%x", all.sessions(), id[:])); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// No hold and no queue position depends on a connection.
func TestKilledConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	o := apart(t)
	const app = "holdfast-killed"
	s, err := Open(testserver.SQLServer(t, "app name", app), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	root := plainOn(t, testserver.SQLServer(t))
	killed := 0
	kill := func() {
		t.Helper()
		rows, err := root.QueryContext(t.Context(), "SELECT session_id FROM sys.dm_exec_sessions WHERE program_name=N'"+app+"'")
		if err != nil {
			t.Skipf("this SQL Server does not let the tests see its sessions: %v", err)
		}
		var ids []int
		for rows.Next() {
			var id int
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		rows.Close()
		for _, id := range ids {
			if _, err := root.ExecContext(t.Context(), fmt.Sprint("KILL ", id)); err == nil {
				killed++
			}
		}
	}
	again := func(what string, f func() error) { // as the engine does it
		t.Helper()
		until(t, what, func() bool {
			err := f()
			if err != nil && store.Definite(err) {
				t.Fatalf("%s: %v", what, err)
			}
			return err == nil
		})
	}
	h, w := mustHold(t, s, mutex("n")), mutex("n")
	mustAsk(t, s, w)
	for range 5 {
		kill()
		again("the hold is renewed", func() error { return s.Renew(t.Context(), []store.Hold{h})[0].Err })
		kill()
		again("the position is kept", func() error {
			a, err := s.Ask(t.Context(), w)
			if a.Granted {
				t.Fatal("granted while another claim holds the lock")
			}
			return err
		})
	}
	if killed == 0 {
		t.Skip("this SQL Server does not let the tests kill connections")
	}
}

// A process that is stopped while it reads an answer blocks nobody.
func TestAProcessStoppedWhileReadingBlocksNoOther(t *testing.T) {
	eachWay(t, func(t *testing.T, url string) {
		o := apartOn(t, url)
		b := openOn(t, url, o)
		large := bytes.Repeat([]byte{'x'}, row.MaxRecord)
		var names []string
		for i := range 20 { // more than fits into the buffers between
			names = append(names, fmt.Sprint("n", i))
			if out, err := b.Swap(t.Context(), &record.Swap{Name: names[i], Data: large}); err != nil || !out.Done {
				t.Fatal(out, err)
			}
		}
		var stopped atomic.Bool
		stall := make(chan bool)
		slow := *o
		slow.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &stallingConn{c, &stopped, stall}, err
		}
		reader := openOn(t, url, &slow)
		stopped.Store(true)
		var reading sync.WaitGroup
		reading.Go(func() {
			for range reader.List(t.Context(), 0) {
			}
		})
		defer reading.Wait()
		defer close(stall)
		until(t, "the read is sent", func() bool {
			var n int
			if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type=N'ASYNC_NETWORK_IO'").Scan(&n); err != nil {
				t.Skipf("this SQL Server does not let the tests see what waits: %v", err)
			}
			return n > 0
		})
		for _, name := range names {
			r, err := b.Load(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := b.Swap(t.Context(), &record.Swap{Name: name, Old: r, Data: []byte{'y'}}); err != nil || !out.Done {
				t.Fatalf("%s: got %+v, %v, want it done", name, out, err)
			}
		}
	})
}

type stallingConn struct {
	net.Conn
	stopped *atomic.Bool
	stall   chan bool
}

func (c *stallingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.stopped.Load() {
		<-c.stall
	}
	return n, err
}

// A row can arrive before its statement fails.
func TestARowOfAFailedStatementIsNotUsed(t *testing.T) {
	t.Parallel()
	b := openOn(t, testserver.SQLServer(t), apart(t))
	head, args := b.text("head")
	rows, err := send(t.Context(), b, head+"SELECT CAST(1 AS bigint); THROW 50001,N'of a test',1;", args, numbers(1))
	if err == nil {
		t.Errorf("got %v, want an error", rows)
	}
}

// The process of a holder is killed: the lock is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return apart(t).Table + " " + testserver.SQLServer(t) },
		Open: func(t *testing.T, at string) store.Store {
			table, url, _ := strings.Cut(at, " ")
			s, err := Open(url, &Options{Table: table})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}
