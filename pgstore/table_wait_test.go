package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// waitingForRows returns how many backends wait for a row of the table.
func waitingForRows(t *testing.T, s *Store) int {
	return pgtest.One[int](t, poolOf(s), "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()", s.schema)
}

// A statement waits for a row that another is changing, and then decides by what that has left there. Nobody is granted a lock that is taken,
// and no token is drawn twice.
func TestAnAskThatWaitedForTheRowUsesItsNewState(t *testing.T) {
	s := newShared(t)
	const waiters = 3
	for what, c := range map[string]struct{ row, done string }{
		"a free name is locked meanwhile":     {"", ""},
		"a locked name is released meanwhile": {"taken", strings.Join(entryColumns, " = '{}', ") + " = '{}', last = last + 3600000000"},
	} {
		for kind, mutex := range map[string]func(string) store.Claim{
			"": mutex,
			" slots": func(name string) store.Claim { // these do not take the short statement
				c := mutex(name)
				c.Limit, c.Weight = 3, 2
				return c
			},
		} {
			t.Run(what+kind, func(t *testing.T) {
				name := what + kind
				h := mustHold(t, s, mutex(name)) // so that the row exists
				if c.row == "" {
					if err := s.Release(t.Context(), h); err != nil {
						t.Fatal(err)
					}
				}
				tx, err := poolOf(s).Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(context.Background())
				other := mutex(name)
				if c.row == "" {
					var token int64
					var durable *string
					if err := tx.QueryRow(t.Context(), s.do.askFast, []byte(name), other.ID[:], other.Limit, other.Weight, int64(1), int64(60e6), int64(0), int64(0), []byte("h"), int64(60e6), false).Scan(&token, &durable); err != nil {
						t.Fatal(err)
					}
					h.Token = token
				} else if _, err := tx.Exec(t.Context(), "UPDATE "+tableOf(s)+" SET "+c.done+" WHERE name = $1", []byte(name)); err != nil {
					t.Fatal(err)
				}
				answers := make(chan store.Answer, waiters)
				for range waiters {
					claim := mutex(name)
					go func() {
						a, err := s.Ask(t.Context(), claim)
						if err != nil {
							t.Error(err)
						}
						answers <- a
					}()
				}
				until(t, "all claims wait for the row", func() bool { return waitingForRows(t, s) >= waiters })
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				granted := 0
				if c.row != "" {
					h.Token += time.Hour.Microseconds() // by this much the clock is behind the newest token
				}
				for range waiters {
					if a := <-answers; a.Granted {
						if granted++; a.Token <= h.Token {
							t.Errorf("got token %d after %d, want a larger one", a.Token, h.Token)
						}
					}
				}
				if want := map[bool]int{true: 1, false: 0}[c.row != ""]; granted != want {
					t.Errorf("got %d waiters granted, want %d", granted, want)
				}
				if st := state(t, s, name); len(st.Entries) != map[bool]int{true: waiters, false: waiters + 1}[c.row != ""] {
					t.Errorf("got queue %+v", st.Entries)
				}
			})
		}
	}
}

// This is why the lock and all that decides are one row: a statement that takes another lock first, and reads then, reads the state from when
// the statement began.
func TestAReadBehindAnAdvisoryLockInOneStatementIsStale(t *testing.T) {
	addr := sharedAddr(t)
	pool, table := poolOn(t, addr), connect.Quote(apart(t, addr))+".entries"
	run(t, pool, "CREATE TABLE "+table+" (id int)")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(4711)"); err != nil {
		t.Fatal(err)
	}
	seen := make(chan int, 1)
	go func() {
		seen <- pgtest.One[int](t, pool, "WITH l AS MATERIALIZED (SELECT pg_advisory_xact_lock(4711)) SELECT (SELECT count(*) FROM "+table+")::int FROM l")
	}()
	until(t, "the statement waits for the lock", func() bool {
		return pgtest.One[int](t, pool, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted") == 1
	})
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+table+" VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-seen; n != 0 {
		t.Errorf("the statement saw %d entries: then the lock and the read could be one statement after all", n)
	}
}

func TestALockedRowDelaysOnlyItsOwnName(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	var holds []store.Hold
	for _, name := range []string{"a", "b", "c"} {
		h := mustHold(t, s, mutex(name))
		h.TTL = time.Hour
		holds = append(holds, h)
	}
	tx, err := poolOf(s).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+tableOf(s)+" WHERE name = 'b' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make(chan []store.Renewal, 1)
	go func() { answers <- s.Renew(ctx, holds) }()
	until(t, "the other holds are renewed while one renewal waits", func() bool {
		st := [2]store.State{state(t, s, "a"), state(t, s, "c")}
		return st[0].Entries[0].Expires > time.Hour/2 && st[1].Entries[0].Expires > time.Hour/2 && waitingForRows(t, s) == 1
	})
	cancel()
	for i, r := range <-answers {
		if i == 1 && (r.Err == nil || store.Definite(r.Err)) {
			t.Errorf("the name with the locked row: %v, want indeterminate", r.Err)
		} else if i != 1 && r.Err != nil {
			t.Errorf("%q: %v", holds[i].Name, r.Err)
		}
	}
}

// A caller that leaves while its statement waits gets an indeterminate outcome, and repeating the ask settles it.
func TestACanceledStatementIsIndeterminateAndRepeatable(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	block := func(name string) (free func()) {
		tx, err := poolOf(s).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT FROM "+tableOf(s)+" WHERE name = $1 FOR UPDATE", []byte(name)); err != nil {
			t.Fatal(err)
		}
		return func() { tx.Rollback(context.Background()) }
	}
	for what, leave := range map[string]func(ctx context.Context, cancel func()){
		"the caller leaves": func(_ context.Context, cancel func()) { cancel() },
		"its backend is killed": func(context.Context, func()) {
			run(t, poolOf(s), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'", s.schema)
		},
		"an operator cancels the statement": func(context.Context, func()) {
			run(t, poolOf(s), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'", s.schema)
		},
	} {
		mustHold(t, s, mutex(what)) // each case has its own name: what was given up is removed in between
		claim := mutex(what)
		free := block(what)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := s.Ask(ctx, claim); failed <- err }()
		until(t, "a statement waits for the row", func() bool { return waitingForRows(t, s) == 1 })
		leave(ctx, cancel)
		if err := <-failed; err == nil || store.Definite(err) {
			t.Errorf("%s: %v, want indeterminate", what, err)
		}
		cancel()
		free()
		if a := mustAsk(t, s, claim); a.Granted || a.Holding != 1 {
			t.Errorf("%s, then the ask is repeated: got %+v", what, a)
		}
		if st := state(t, s, what); len(st.Entries) != 2 {
			t.Errorf("%s: got %d entries, want the hold and one position", what, len(st.Entries))
		}
	}
}

// Under another isolation level two statements that conflict fail. The store sets READ COMMITTED from then on.
func TestConflictsOfOtherIsolationLevelsAreRetried(t *testing.T) {
	addr := sharedAddr(t)
	url := testserver.PostgresURL(addr, "default_transaction_isolation=serializable")
	s, err := Open(url, &Options{Schema: apart(t, addr)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := mustHold(t, s, mutex("n"))
	tx, err := s.own.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "UPDATE "+tableOf(s)+" SET kept = kept + 1"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		answered <- s.Renew(t.Context(), []store.Hold{h, {Name: "n", ID: me.NewID(), Token: 1, TTL: time.Minute}})[0].Err
	}()
	// The first skips the row, then comes back for it.
	until(t, "a statement waits for the row", func() bool { return waitingForRows(t, s) >= 1 })
	tx.Commit(context.Background())
	if err := <-answered; err != nil {
		t.Errorf("a renewal that met another statement: %v", err)
	}
	if !s.pinned.Load() {
		t.Error("got no 40001: the test shows nothing")
	}
}

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "autovacuum=off")
	s := tableOn(t, poolOn(t, server.Addr), nil)
	s.db = &meddled{db: s.db}
	defer s.Close()
	h := mustHold(t, s, mutex("n"))
	mustRenew(t, s, h)
	waiter := second(t, s) // it waits too, for as long as this takes: its process has died, and its session goes on
	waiter.db = &meddled{db: waiter.db}
	mustAsk(t, waiter, mutex("n"))
	for _, s := range []*Store{s, waiter} {
		s.tasks.Wait() // the initial sweep
	}
	dead(waiter)
	run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = $1", time.Now().Add(time.Hour).UnixMicro())
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.renew || statement == s.do.session.begin {
			return errCut // those write
		}
		return nil
	})
	for _, s := range []*Store{s, waiter} {
		heard(t, s) // this also waits for a renewal under way
	}
	lsn := func() string { return pgtest.One[string](t, poolOf(s), "SELECT pg_current_wal_insert_lsn()::text") }
	// An earlier write may reach the disk only now.
	before := lsn()
	until(t, "the server is idle", func() bool { last := before; before = lsn(); return before == last })
	stranger := tableOn(t, poolOf(s), nil) // a process that does not know the name
	defer stranger.Close()
	stranger.next.Store(s.next.Load())
	try := mutex("n")
	for range 10 {
		stranger.seen.set("n", unknown)
		for _, s := range []*Store{s, stranger} {
			try.Try, try.ID = true, me.NewID()
			if a := mustAsk(t, s, try); a.Granted || a.Holding != 1 || a.Waiting != 1 {
				t.Fatalf("%+v", a)
			}
		}
		if _, err := s.Poll(t.Context(), try); err != nil {
			t.Fatal(err)
		}
	}
	if after := lsn(); after != before {
		t.Errorf("20 refused tries moved the log from %s to %s", before, after)
	}
}

// For a name that nobody has used, ErrLost means just that.
func TestWithoutATableNothingIsHeldAndNoTableIsCreated(t *testing.T) {
	s := newShared(t)
	for op, f := range everything(t, s, "n") {
		err := f()
		switch op {
		case "ask", "try":
			continue
		case "renew", "change", "release", "adopt", "break":
			if !errors.Is(err, store.ErrLost) && op != "release" {
				t.Errorf("%s: %v, want ErrLost", op, err)
			}
		default:
			if err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	other := newShared(t)
	for op, f := range everything(t, other, "n") {
		if op != "ask" && op != "try" {
			f()
		}
	}
	if n := pgtest.One[int](t, poolOf(other), "SELECT count(*)::int FROM pg_class WHERE relnamespace = $1::regnamespace", other.schema); n != 0 {
		t.Error("an operation that grants nothing created a table")
	}
	sql, err := Schema(&Options{Schema: other.schema})
	if err != nil || !strings.Contains(sql, "CREATE TABLE") {
		t.Fatalf("got %q, %v", sql, err)
	}
	run(t, poolOf(other), sql)
	mustHold(t, other, mutex("n"))
}
