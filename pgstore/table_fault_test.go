package pgstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// mailboxOf subscribes and returns what arrives.
func mailboxOf(t *testing.T, s *Store) (next func() store.Notification) {
	t.Helper()
	notifications := make(chan store.Notification, 100)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	return func() store.Notification {
		t.Helper()
		select {
		case h := <-notifications:
			return h
		case <-time.After(patience):
			t.Fatalf("no notification within %v", patience)
			return store.Notification{}
		}
	}
}

// handOver passes a name on to the next waiter, and expects its notification. If the store hears that some notifications may be missing,
// handOver repeats it with another name.
func handOver(t *testing.T, s *Store, what string, next func() store.Notification) {
	t.Helper()
	var before []string // names whose notification may still come after the zero notification
	for {
		name := what + " " + store.NewProcess().String()
		h, w := mustHold(t, s, mutex(name)), mutex(name)
		if a := mustAsk(t, s, w); a.Granted {
			t.Fatal("two claims hold the lock")
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		got := next()
		for slices.Contains(before, got.Name) {
			got = next()
		}
		if got == (store.Notification{}) {
			before = append(before, name)
			continue
		}
		if got.Name != name || got.ID != w.ID || got.Token <= h.Token {
			t.Errorf("got notification %+v, want one for %v of %q", got, w.ID, name)
		}
		return
	}
}

// Of all waiters only the next is notified of a release.
func TestOnlyTheGrantedWaiterIsNotified(t *testing.T) {
	s := newShared(t)
	next := mailboxOf(t, s)
	h := mustHold(t, s, mutex("n"))
	claims := []store.Claim{mutex("n"), mutex("n"), mutex("n")}
	for _, c := range claims {
		if a := mustAsk(t, s, c); a.Granted {
			t.Fatal("two claims hold the lock")
		}
	}
	for i, c := range claims {
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		got := next()
		if got.ID != c.ID || got.Token <= h.Token {
			t.Fatalf("after %d hand-overs: got notification %+v, want one for %v with a token", i, got, c.ID)
		}
		h = store.Hold{Name: "n", ID: c.ID, Token: got.Token}
	}
}

func TestAReopenedMailboxReportsMissedNotifications(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "idle_session_timeout=300ms")
	direct := poolOn(t, server.Addr, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["idle_session_timeout"] = "0" })
	s := tableOn(t, poolOn(t, server.Addr, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "ours" }), nil)
	defer s.Close()
	s.pingEvery = time.Hour // so it is idle, and LISTEN is its newest statement
	next := mailboxOf(t, s)
	handOver(t, s, "before", next)
	// Where the server closes idle connections it does not close this one. Those of the pool are found closed and are replaced.
	ours := func(which string) string {
		return pgtest.One[string](t, direct, "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE application_name = 'ours'"+which)
	}
	listens := ours(" AND query LIKE '%LISTEN%'")
	until(t, "only the connection that listens is open", func() bool { return listens != "" && ours("") == listens })
	handOver(t, s, "after a rest", next)

	kill := "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
	if n := pgtest.One[int](t, direct, kill); n < 1 {
		t.Fatalf("got %d backends killed, want at least one", n)
	}
	if got := next(); got != (store.Notification{}) {
		t.Errorf("after the break: got notification %+v, want the zero notification", got)
	}
	found := func() bool {
		_, err := s.Poll(t.Context(), mutex("x"))
		return err == nil
	}
	until(t, "the pool has replaced the killed connections", found)
	handOver(t, s, "after", next)

	server.Kill()
	server.Restart()
	if got := next(); got != (store.Notification{}) {
		t.Errorf("after the restart: got notification %+v, want the zero notification", got)
	}
	until(t, "the pool has connected to the server again", found)
	handOver(t, s, "after a restart", next)
}

// This holds also for a user with synchronous_commit off.
func TestGrantsAndRenewalsSurviveAServerCrash(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "wal_writer_delay=10s", "-c", "synchronous_commit=off")
	s := tableOn(t, poolOn(t, server.Addr), nil)
	defer s.Close()
	c := mutex("n")
	mustHold(t, s, mutex("other"))
	s.tasks.Wait()
	h := mustHold(t, s, c)
	h.TTL = time.Hour
	crash := func() {
		t.Helper()
		server.Kill()
		server.Restart()
		until(t, "the pool has connected to the server again", func() bool {
			_, err := s.Poll(t.Context(), mutex("x"))
			return err == nil
		})
	}
	for what, write := range map[string]func(){
		"the fast renewal": func() {},
		"a queue position": func() {
			w := mutex("n")
			mustAsk(t, s, w)
		},
		"a renewal beside others": func() { h.TTL = 2 * time.Hour },
	} {
		write()
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		crash()
		st := state(t, s, "n")
		if len(st.Entries) == 0 || st.Entries[0].ID != h.ID || st.Entries[0].Token != h.Token || st.Entries[0].Expires < h.TTL-time.Minute {
			t.Fatalf("%s: after the crash: got %+v", what, st)
		}
	}
	for _, what := range []string{"a new name", "a known name"} {
		h = mustHold(t, s, mutex("quick"))
		crash()
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Errorf("%s, granted just before the crash: %v", what, err)
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	h, _ = kept(t, s, "given back") // by a session, which lives on
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	crash()
	if st := state(t, s, "given back"); len(st.Entries) != 0 {
		t.Errorf("a hold in a session, released just before the crash: got %+v", st)
	}
	h = mustHold(t, s, mutex("passed on"))
	waits := mutex("passed on")
	mustAsk(t, s, waits)
	s.ways.set("passed on", next)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	token := pgtest.One[int64](t, poolOf(s), "SELECT token[1] FROM "+tableOf(s)+" WHERE name = 'passed on'")
	crash()
	// The grant lasts as long as a queue position, which may have expired by now.
	if now := pgtest.One[int64](t, poolOf(s), "SELECT token[1] FROM "+tableOf(s)+" WHERE name = 'passed on' AND id[1] = $1", waits.ID[:]); now != token || token == 0 {
		t.Errorf("granted by a release just before the crash: got token %d, want %d", now, token)
	}
}

func TestAPoolOfOneConnectionIsEnough(t *testing.T) {
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr, func(c *pgxpool.Config) { c.MaxConns = 1 }), apart(t, addr)
	var wg sync.WaitGroup
	inside := make(chan struct{}, 1)
	for range 4 {
		locks, err := holdfast.New(tableOn(t, pool, &Options{Schema: schema}), &holdfast.Options{Logger: quiet(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		for range 4 {
			wg.Go(func() {
				for range 5 {
					err := locks.Mutex("n").Do(t.Context(), func(context.Context) error {
						select {
						case inside <- struct{}{}:
							<-inside
							return nil
						default:
							return errors.New("two claims hold the lock")
						}
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestAServerThatIsRestartedUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	locks := make([]*holdfast.Locker, 4)
	for i := range locks {
		var err error
		if locks[i], err = holdfast.New(tableOn(t, poolOn(t, server.Addr), nil), &holdfast.Options{TTL: 30 * time.Second, Logger: quiet(t)}); err != nil {
			t.Fatal(err)
		}
		defer locks[i].Close()
	}
	keep, err := locks[0].Mutex("kept").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var tokens []int64
	inside := map[int]bool{}
	var wg sync.WaitGroup
	for i := range locks {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := locks[i].Mutex("hot").Lock(ctx)
				if err != nil {
					continue // the server was down
				}
				mu.Lock()
				if len(inside) > 0 {
					t.Errorf("%d is granted while %v hold the lock", i, inside)
				}
				inside[i] = true
				tokens = append(tokens, lease.Token())
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				delete(inside, i)
				mu.Unlock()
				lease.Release()
			}
		})
	}
	some := func(more int) {
		t.Helper()
		begun := 0
		mu.Lock()
		begun = len(tokens)
		mu.Unlock()
		until(t, "more claims are granted", func() bool { mu.Lock(); defer mu.Unlock(); return len(tokens) >= begun+more })
	}
	some(20)
	server.Restart()
	some(20)
	stop()
	wg.Wait()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("got token %d, followed by %d", tokens[i-1], tokens[i])
		}
	}
	if !keep.Valid() {
		t.Error("a lease of 30 s was lost in the restart")
	}
	if err := keep.Release(); err != nil {
		t.Errorf("release of the lease: %v", err)
	}
}
