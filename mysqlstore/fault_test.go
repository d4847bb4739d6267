package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// link drops connections once their server has answered: the statement is done, and the client does not learn it.
type link struct {
	arm  atomic.Bool
	only atomic.Pointer[string] // statements that contain this; nil: all
	cuts atomic.Int64
	sent atomic.Int64 // writes of the client
}

type linked struct {
	net.Conn
	l   *link
	cut bool
}

func (c *linked) Write(b []byte) (int, error) {
	c.l.sent.Add(1)
	if only := c.l.only.Load(); len(b) > 10 && (only == nil || bytes.Contains(b, []byte(*only))) && c.l.arm.CompareAndSwap(true, false) {
		c.cut = true
	}
	return c.Conn.Write(b)
}

func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut && err == nil {
		c.l.cuts.Add(1)
		c.Conn.Close()
		return 0, errors.New("the answer was lost")
	}
	return n, err
}

func linkedDB(t *testing.T, dsn string) (*link, *sql.DB) {
	t.Helper()
	l := &link{}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{}
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &linked{Conn: conn, l: l}, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return l, db
}

func TestWhenAnAnswerIsLostNothingIsSentTwiceAndTheRepeatIsRight(t *testing.T) {
	t.Parallel()
	l, db := linkedDB(t, sharedDSN(t))
	s := storeOn(t, db, apart())
	defer s.Close()
	for _, c := range []struct {
		name  string
		waits bool // somebody waits, so the row is read and written
	}{{"alone", false}, {"with a waiter", true}} {
		t.Run(c.name, func(t *testing.T) {
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
			swap := "INSERT INTO " + s.b.records
			claim, waits := mutex(c.name), mutex(c.name)
			lose("ask", swap, func() error { _, err := s.Ask(t.Context(), claim); return err })
			h := mustHold(t, s, claim) // this process has had it all the time
			swap = "UPDATE /*!80001 (SELECT name AS unlocked FROM " + s.b.records
			if c.waits {
				lose("ask for a position", swap, func() error { _, err := s.Ask(t.Context(), waits); return err })
				mustAsk(t, s, waits)
			}
			want := 1
			if c.waits {
				want = 2
			}
			if n := len(state(t, s, c.name).Entries); n != want {
				t.Errorf("got %d entries, want %d", n, want)
			}
			h.Used = h.Token
			lose("change of the owner", swap, func() error { h.Owner = "new"; return s.Renew(t.Context(), []store.Hold{h})[0].Err })
			if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
				t.Errorf("the repeated renewal: %v", err)
			}
			lose("release", swap, func() error { return s.Release(t.Context(), h) })
			if err := s.Release(t.Context(), h); err != nil && !errors.Is(err, store.ErrLost) {
				t.Errorf("the repeated release: %v, want nil, or ErrLost as the hold is gone", err)
			}
			if a := mustAsk(t, s, waits); !a.Granted || a.Token <= h.Token {
				t.Errorf("the next claim: got %+v after token %d", a, h.Token)
			}
			lose("release without a token", swap, func() error {
				return s.Release(t.Context(), store.Hold{Name: h.Name, ID: waits.ID})
			})
			if err := s.Release(t.Context(), store.Hold{Name: h.Name, ID: waits.ID}); err != nil {
				t.Errorf("the repeated release without a token: %v", err)
			}
			if n := len(state(t, s, c.name).Entries); n != 0 {
				t.Errorf("got %d entries, want none", n)
			}
		})
	}
}

// While nobody else wants the lock, acquire and release are one statement each, and one statement renews all holds of the process. That holds
// also for a driver that would prepare statements with parameters.
func TestAnUncontendedLockTakesOneRoundTrip(t *testing.T) {
	l, db := linkedDB(t, sharedDSN(t))
	s := storeOn(t, db, apart())
	defer s.Close()
	s.b.Sweeps.Pause()
	mustHold(t, s, mutex("first")) // it reads the tables, begins the sessions, and connects
	mustAsk(t, s, mutex("first"))
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
	for range 2 {
		c := mutex("n")
		var h store.Hold
		trips("ask and release", 2, func() {
			c.ID = me.NewID()
			h = mustHold(t, s, c)
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		})
	}
	held := mutex("held")
	h := mustHold(t, s, held)
	renew := func(holds ...store.Hold) func() {
		return func() {
			for _, r := range s.Renew(t.Context(), holds) {
				if r.Err != nil || r.Weight != store.Full {
					t.Error(r)
				}
			}
		}
	}
	trips("renew", 1, renew(h))
	try := mutex("held")
	try.Try = true
	trips("a refused try", 1, func() { mustAsk(t, s, try) })
	trips("look", 1, func() { s.Poll(t.Context(), try) })
	var holds []store.Hold
	for i := range 300 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("many/", i))))
	}
	trips("renew 300", 1, renew(holds...))
}

// killAll ends every connection of the user but the one it uses.
func killAll(t *testing.T, root *sql.DB, user string) (n int) {
	t.Helper()
	rows, err := root.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE USER=? AND ID<>CONNECTION_ID()", user)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	rows.Close()
	for _, id := range ids {
		if _, err := root.ExecContext(t.Context(), fmt.Sprint("KILL ", id)); err == nil {
			n++
		}
	}
	return n
}

// No hold and no queue position depends on a connection.
func TestKilledConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	root := dbOn(t, testserver.MariaDBDSN(server.Addr))
	s := storeOn(t, user(t, server, "locks", &Options{Table: DefaultTable}, rights(t)...), nil)
	defer s.Close()
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
	killed := 0
	for range 5 {
		killed += killAll(t, root, "locks")
		again("the hold is renewed", func() error { return s.Renew(t.Context(), []store.Hold{h})[0].Err })
		killed += killAll(t, root, "locks")
		again("the position is kept", func() error {
			a, err := s.Ask(t.Context(), w)
			if a.Granted {
				t.Fatal("granted while another claim holds the lock")
			}
			return err
		})
	}
	killAll(t, root, "locks")
	if err := s.Release(t.Context(), h); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	again("the waiter is granted", func() error {
		a, err := s.Ask(t.Context(), w)
		if err == nil && !a.Granted {
			err = s.Release(t.Context(), h) // the first release was indeterminate
			if err == nil || errors.Is(err, store.ErrLost) {
				return errors.New("again")
			}
		}
		return err
	})
	if killed < 10 {
		t.Errorf("got %d killed connections, want 10 or more", killed)
	}
}

// A server is restarted, or killed, under load: there are never two holders at once, and tokens only increase.
func TestARestartUnderLoadForgetsNothing(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	dsn := with(testserver.MariaDBDSN(server.Addr), "timeout=5s")
	var inside [3]atomic.Int64
	var last [3]atomic.Int64
	var grants atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 6 {
		s := storeOn(t, dbOn(t, dsn), nil)
		defer s.Close()
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := (g + i) % len(inside)
				c := mutex(fmt.Sprint("load/", n))
				c.TTL, c.PositionTTL = time.Hour, time.Second // a lost hold stays and blocks
				a := try(ctx, s, c)
				if !a.Granted {
					continue
				}
				grants.Add(1)
				if inside[n].Add(1) != 1 {
					t.Errorf("two claims hold %s", c.Name)
				}
				if before := last[n].Swap(a.Token); before >= a.Token {
					t.Errorf("got token %d after %d, want a larger one", a.Token, before)
				}
				time.Sleep(time.Millisecond)
				inside[n].Add(-1)
				for {
					err := s.Release(context.Background(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
					if err == nil || errors.Is(err, store.ErrLost) { // the attempt before this one has done it
						break
					}
					if store.Definite(err) {
						t.Error(err)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	more := func() {
		t.Helper()
		have := grants.Load()
		until(t, "more claims are granted", func() bool { return grants.Load() > have+20 })
	}
	more()
	for i := range 4 {
		if i%2 == 0 {
			server.Kill()
		} else {
			server.Stop()
		}
		server.Restart()
		more()
	}
	stop()
	wg.Wait()
}

// try asks until the outcome is known. It takes the claim back if the outcome stays indeterminate or the claim waits.
func try(ctx context.Context, s *Store, c store.Claim) (a store.Answer) {
	for range 10 {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		var err error
		a, err = s.Ask(one, c)
		cancel()
		if err == nil && a.Granted {
			return a
		}
		time.Sleep(2 * time.Millisecond)
	}
	for s.Release(context.Background(), store.Hold{Name: c.Name, ID: c.ID}) != nil {
		time.Sleep(5 * time.Millisecond)
	}
	return store.Answer{}
}

// InnoDB cannot write a statement-based binlog under READ COMMITTED.
func TestAStatementBinlogWorksOrIsReported(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t, "--log-bin", "--binlog-format=STATEMENT")
	s := storeOn(t, dbOn(t, testserver.MariaDBDSN(server.Addr)), nil)
	defer s.Close()
	storetest.Everything(t, s)
	rc := storeOn(t, dbOn(t, with(testserver.MariaDBDSN(server.Addr), isolation(t, testserver.MariaDBDSN(server.Addr), "READ-COMMITTED"))), nil)
	defer rc.Close()
	if _, err := rc.Ask(t.Context(), mutex("other")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "binlog_format") {
		t.Errorf("under READ COMMITTED: %v, want ErrUnsupported", err)
	}
}

func TestTheCheckReportsWhatItFinds(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t, "--log-bin", "--binlog-format=MIXED")
	root := dbOn(t, testserver.MariaDBDSN(server.Addr))
	s := storeOn(t, root, nil)
	defer s.Close()
	finds := func(about string, level store.Level, says string) {
		t.Helper()
		for _, f := range s.Check(t.Context()) {
			if f.About == about {
				if f.Level() != level || !strings.Contains(f.Text()+f.Run, says) {
					t.Errorf("%s: got %s: %s %q, want %s: %s", about, f.Level(), f.Text(), f.Run, level, says)
				}
				return
			}
		}
		t.Errorf("no finding about %s", about)
	}
	kind := "MySQL "
	if strings.HasPrefix(isolation(t, testserver.MariaDBDSN(server.Addr), ""), "tx_") {
		kind = "MariaDB 1"
	}
	finds("version", store.LevelOK, kind)
	finds("role", store.LevelOK, "takes writes")
	finds("clock", store.LevelOK, "this host's")
	finds("autocommit", store.LevelOK, "1")
	finds("table", store.LevelOK, "first use creates it")
	if err := root.QueryRowContext(t.Context(), "SELECT 1 FROM "+DefaultTable).Scan(new(int)); !is(err, noSuchTable) {
		t.Errorf("the check created the table: %v", err)
	}
	mustHold(t, s, mutex("n"))
	finds("table", store.LevelOK, "exists")
	mustExec(t, root, "SET GLOBAL sync_binlog = 0")
	finds("disk", store.LevelWarning, "SET GLOBAL sync_binlog = 1;")
	mustExec(t, root, "SET GLOBAL sync_binlog = 1;")
	finds("disk", store.LevelOK, "")
	mustExec(t, root, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	finds("disk", store.LevelWarning, "SET GLOBAL innodb_flush_log_at_trx_commit = 1;")
	for version, old := range map[string]bool{
		"10.5.9-MariaDB": true, "10.6.0-MariaDB-log": false, "10.11.19-MariaDB-0+deb12u1": false, "11.4.2-MariaDB": false,
		"5.7.44-log": true, "8.0.36": false, "9.1.0": false, "": false, "x": false,
	} {
		if (tooOld(version) != "") != old {
			t.Errorf("%q: got too old: %q", version, tooOld(version))
		}
	}
}
