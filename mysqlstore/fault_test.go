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
)

// A link drops connections when their server has answered: what was asked is
// done, and nobody is told.
type link struct {
	arm  atomic.Bool
	only atomic.Pointer[string] // statements that have this in them; nil: all
	cuts atomic.Int64
	sent atomic.Int64 // what the client has sent
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
		return 0, errors.New("the answer is lost")
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
					t.Errorf("%s: %v, want unclear", what, err)
				}
				if l.cuts.Load() != cuts+1 {
					t.Errorf("%s: %d answers were lost", what, l.cuts.Load()-cuts)
				}
			}
			const insert, update = "INSERT INTO", "UPDATE "
			claim, waits := mutex(c.name), mutex(c.name)
			lose("ask", insert, func() error { _, err := s.Ask(t.Context(), claim); return err })
			h := mustHold(t, s, claim) // it has been ours all the time
			if c.waits {
				lose("ask for a place", "rest=x", func() error { _, err := s.Ask(t.Context(), waits); return err })
				mustAsk(t, s, waits)
			}
			want := 1
			if c.waits {
				want = 2
			}
			if n := len(state(t, s, c.name).Entries); n != want {
				t.Errorf("%d entries, want %d", n, want)
			}
			renewal := "shown"
			if renewal = "broken IS NULL"; c.waits {
				renewal = "rest=x"
			}
			lose("renew", renewal, func() error { return s.Renew(t.Context(), []store.Hold{h})[0].Err })
			if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
				t.Errorf("the repeated renewal: %v", err)
			}
			release := "total=0"
			if c.waits {
				release = "rest=NULL"
			}
			lose("release", release, func() error { return s.Release(t.Context(), h) })
			if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
				t.Errorf("the repeated release: %v, want lost: it is no longer there", err)
			}
			if a := mustAsk(t, s, waits); !a.Granted || a.Token <= h.Token {
				t.Errorf("the next gets %+v after token %d", a, h.Token)
			}
			lose("release of whatever there is", update, func() error {
				return s.Release(t.Context(), store.Hold{Name: h.Name, ID: waits.ID})
			})
			if err := s.Release(t.Context(), store.Hold{Name: h.Name, ID: waits.ID}); err != nil {
				t.Errorf("the repeated release of whatever there is: %v", err)
			}
		})
	}
}

// Where nobody else wants the name each operation is one round trip, also for a
// driver that would prepare what has parameters.
func TestWhatNobodyElseWantsTakesOneRoundTrip(t *testing.T) {
	l, db := linkedDB(t, sharedDSN(t))
	s := storeOn(t, db, apart())
	defer s.Close()
	s.swept.next = time.Now().Add(time.Hour)
	mustHold(t, s, mutex("first")) // looks at the table, and connects
	trips := func(what string, want int64, f func()) {
		t.Helper()
		before := l.sent.Load()
		if f(); l.sent.Load()-before != want {
			t.Errorf("%s: %d round trips, want %d", what, l.sent.Load()-before, want)
		}
	}
	var h store.Hold
	trips("ask for a name never used", 1, func() { h = mustHold(t, s, mutex("n")) })
	trips("renew", 1, func() {
		if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err != nil {
			t.Error(r.Err)
		}
	})
	c := mutex("n")
	c.Try = true
	trips("a refused try", 2, func() { mustAsk(t, s, c) })
	trips("look", 1, func() { s.Look(t.Context(), c) })
	release := func() {
		if err := s.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
	trips("release", 1, release)
	trips("ask for an idle name", 1, func() { h = mustHold(t, s, mutex("n")) })
	mustAsk(t, s, mutex("n"))
	trips("release to a waiter", 3, release)
	var holds []store.Hold
	for i := range 300 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("many/", i))))
	}
	trips("renew 300", 2, func() {
		for _, r := range s.Renew(t.Context(), holds) {
			if r.Err != nil || r.Weight != store.Full {
				t.Error(r)
			}
		}
	})
}

// lockRow has a row locked by somebody else's transaction until end is called.
func lockRow(t *testing.T, dsn string, s *Store, name string) (end func()) {
	t.Helper()
	tx, err := dbOn(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.QueryContext(t.Context(), s.sql.read(name)+" FOR UPDATE")
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	return func() { tx.Rollback() }
}

// A statement that waits in the server when its caller leaves may be done later
// still: what it leaves can be taken back by its id.
func TestAStatementThatIsCancelledHalfWayHoldsNobodyUpAndCanBeTakenBack(t *testing.T) {
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	w := mutex("n")
	unlock := lockRow(t, sharedDSN(t), s, "n")
	for what, f := range map[string]func(context.Context) error{
		"ask":   func(ctx context.Context) error { _, err := s.Ask(ctx, w); return err },
		"renew": func(ctx context.Context) error { return s.Renew(ctx, []store.Hold{h})[0].Err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := f(ctx)
		cancel()
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want unclear, at its deadline", what, err)
		}
	}
	if st := state(t, s, "n"); len(st.Entries) != 1 { // who reads waits for nobody
		t.Errorf("listed: %+v", st)
	}
	unlock()
	until(t, "nothing but the hold is left", func() bool {
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: w.ID}); err != nil {
			t.Fatal(err)
		}
		var waiting int // statements of ours that are still under way in the server
		if err := s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE ?", "%UPDATE%"+s.o.Table+"%").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		st := state(t, s, "n")
		return waiting <= 1 && len(st.Entries) == 1 && st.Entries[0].ID == h.ID // that one asks
	})
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Error(err)
	}
}

// onBoth runs f on the server that the tests share and on a MySQL server, unless
// that is the one they share.
func onBoth(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Run("shared", func(t *testing.T) { f(t, sharedDSN(t)) })
	t.Run("MySQL 9.7", func(t *testing.T) { f(t, testserver.MariaDBDSN(testserver.SharedMySQL9(t))) })
}

// One row that somebody has locked keeps the other holds from nothing.
func TestALockedRowKeepsNoOtherHoldFromBeingRenewed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		s := storeOn(t, dbOn(t, dsn), apart())
		defer s.Close()
		var holds []store.Hold
		for i := range 40 {
			holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
			holds[i].TTL = time.Hour
		}
		unlock := lockRow(t, dsn, s, "17")
		defer unlock()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answers := make(chan []store.Renewal, 1)
		go func() { answers <- s.Renew(ctx, holds) }()
		until(t, "all others are renewed", func() bool {
			renewed := 0
			for st, err := range s.List(t.Context(), "") {
				if err == nil && st.Entries[0].Expires > time.Hour/2 {
					renewed++
				}
			}
			return renewed == len(holds)-1
		})
		cancel() // answers may be under way
		for i, r := range <-answers {
			if unclear := errors.Is(r.Err, store.ErrUnavailable); i == 17 && !unclear || !unclear && r.Err != nil {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		}
	})
}

// One row that somebody has locked keeps nobody from the other names whose rows
// are deleted with it.
func TestALockedRowKeepsNobodyFromNamesThatAreDeleted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		s := storeAt(t, dbOn(t, dsn), apart(), func() int64 { return time.Now().Add(48 * time.Hour).UnixMicro() })
		defer s.Close()
		earlier := storeOn(t, dbOn(t, dsn), &s.o)
		defer earlier.Close()
		for i := range 10 {
			if err := earlier.Release(t.Context(), mustHold(t, earlier, mutex(fmt.Sprint(i)))); err != nil {
				t.Fatal(err)
			}
		}
		unlock := lockRow(t, dsn, s, "7")
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s.sweepPage(ctx) // at best it deletes all but one
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for i := range 7 {
			if a, err := s.Ask(ctx, mutex(fmt.Sprint(i))); err != nil || !a.Granted {
				t.Fatalf("ask for %d: %+v, %v", i, a, err)
			}
		}
	})
}

// Who has the turn at a name and stops there keeps nobody from it.
func TestAStoppedProcessThatHasTheTurnKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := storeOn(t, dbOn(t, sharedDSN(t)), &s.o)
	defer other.Close()
	h := mustHold(t, s, mutex("n"))
	turn, err := other.turn(t.Context(), "n")
	if err != nil || turn.lock == "" {
		t.Fatal(err, turn)
	}
	defer turn.end(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := mutex("n")
	if a, err := s.Ask(ctx, w); err != nil || a.Granted {
		t.Fatalf("ask: %+v, %v", a, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Release(ctx, h); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Look(t.Context(), w); err != nil || !a.Granted {
		t.Errorf("the next sees %+v, %v", a, err)
	}
}

// A connection goes back to the pool without the turn.
func TestTheTurnIsGivenBack(t *testing.T) {
	db := dbOn(t, sharedDSN(t))
	db.SetMaxOpenConns(1)
	s := storeOn(t, db, apart())
	defer s.Close()
	turn, err := s.turn(t.Context(), "n")
	if err != nil || turn.lock == "" {
		t.Fatal(err, turn)
	}
	turn.end(t.Context())
	var free int
	if err := dbOn(t, sharedDSN(t)).QueryRowContext(t.Context(), "SELECT IS_FREE_LOCK("+s.sql.turn("n")+")").Scan(&free); err != nil || free != 1 {
		t.Errorf("free: %d, %v", free, err)
	}
}

// killAll ends every connection of the user but our own.
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

// No connection is a part of a hold or a place.
func TestKilledConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	root := dbOn(t, testserver.MariaDBDSN(server.Addr))
	s := storeOn(t, user(t, server, "locks", &Options{Table: DefaultTable}, rights(t)...), nil)
	defer s.Close()
	again := func(what string, f func() error) { // as the engine does
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
		again("the place is kept", func() error {
			a, err := s.Ask(t.Context(), w)
			if a.Granted {
				t.Fatal("granted beside a holder")
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
			err = s.Release(t.Context(), h) // it was unclear
			if err == nil || errors.Is(err, store.ErrLost) {
				return errors.New("again")
			}
		}
		return err
	})
	if killed < 10 {
		t.Errorf("only %d connections were killed", killed)
	}
}

// A server that is restarted, or killed, under load: no two hold at a time, and
// tokens only grow.
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
				c.TTL, c.Place = time.Hour, time.Second // a hold that is lost stays in the way
				a := try(ctx, s, c)
				if !a.Granted {
					continue
				}
				grants.Add(1)
				if inside[n].Add(1) != 1 {
					t.Errorf("two are inside %s", c.Name)
				}
				if before := last[n].Swap(a.Token); before >= a.Token {
					t.Errorf("token %d after %d", a.Token, before)
				}
				time.Sleep(time.Millisecond)
				inside[n].Add(-1)
				for {
					err := s.Release(context.Background(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
					if err == nil || errors.Is(err, store.ErrLost) { // the one before has done it
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
		until(t, "it goes on", func() bool { return grants.Load() > have+20 })
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

// try asks until the answer is clear, and takes back what stays unclear or
// waits.
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

// A statement-based log is one that InnoDB cannot keep under READ COMMITTED.
func TestAStatementBinlogWorksOrIsToldAsThat(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t, "--log-bin", "--binlog-format=STATEMENT")
	s := storeOn(t, dbOn(t, testserver.MariaDBDSN(server.Addr)), nil)
	defer s.Close()
	exercise(t, s)
	rc := storeOn(t, dbOn(t, with(testserver.MariaDBDSN(server.Addr), "tx_isolation='READ-COMMITTED'")), nil)
	defer rc.Close()
	if _, err := rc.Ask(t.Context(), mutex("other")); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "binlog_format") {
		t.Errorf("under READ COMMITTED: %v", err)
	}
}

func TestTheCheckTellsWhatItFinds(t *testing.T) {
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
					t.Errorf("%s: %s: %s %q, want %s: %s", about, f.Level(), f.Text(), f.Run, level, says)
				}
				return
			}
		}
		t.Errorf("nothing about %s", about)
	}
	finds("version", store.LevelOK, "MariaDB 1")
	finds("role", store.LevelOK, "takes writes")
	finds("clock", store.LevelOK, "this host's")
	finds("autocommit", store.LevelOK, "1")
	finds("table", store.LevelOK, "CREATE TABLE")
	if err := root.QueryRowContext(t.Context(), "SELECT 1 FROM "+DefaultTable).Scan(new(int)); !is(err, noSuchTable) {
		t.Errorf("the check made the table: %v", err)
	}
	mustHold(t, s, mutex("n"))
	finds("table", store.LevelOK, "there")
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
			t.Errorf("%q too old: %q", version, tooOld(version))
		}
	}
}
