package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// announced counts the notifications that a name has changed while do runs. It hears all on one connection: to open one each time takes so
// long on a busy machine that a waiter loses its position.
func announced(t *testing.T, direct *pgxpool.Pool, name string) func(do func()) (n int) {
	t.Helper()
	c, err := pgx.ConnectConfig(t.Context(), direct.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := c.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("LISTEN " + nameChannel(name))
	until := func(mark string) (n int) {
		t.Helper()
		exec("SELECT pg_notify($1, $2)", nameChannel(name), mark) // they arrive in the order of their commits
		for {
			soon, cancel := context.WithTimeout(t.Context(), patience)
			got, err := c.WaitForNotification(soon)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if got.Payload == mark {
				return n
			}
			n++
		}
	}
	return func(do func()) (n int) {
		t.Helper()
		until("begins") // earlier changes do not count
		do()
		return until("done")
	}
}

func TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	direct := poolOn(t, sharedAddr(t))
	other := tableOn(t, direct, &Options{Schema: s.schema})
	defer other.Close()
	for name, says := range map[string]int{"lock": 0, "election": 1} {
		t.Run(name, func(t *testing.T) { aTerm(t, s, other, direct, says) })
	}
}

// aTerm goes through all that can happen to a name. says is how often each change is announced.
func aTerm(t *testing.T, s, other *Store, direct *pgxpool.Pool, says int) {
	name := store.NewProcess().String()
	count := announced(t, direct, name)
	announces := func(want int, what string, do func()) {
		t.Helper()
		if got := count(do); got != want {
			t.Errorf("%s: got %d announcements, want %d", what, got, want)
		}
	}
	claim := func() store.Claim {
		c := mutex(name)
		c.Announce = says > 0
		return c
	}
	renew := func(h *store.Hold) {
		t.Helper()
		h.TTL = time.Minute
		if err := s.Renew(t.Context(), []store.Hold{*h})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
	release := func(h store.Hold) {
		t.Helper()
		h.Announce = says > 0
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	var h store.Hold
	announces(says, "a grant of a new name", func() { h = mustHold(t, s, claim()) })
	announces(0, "renewals", func() { renew(&h); renew(&h); renew(&h) })
	for i := range 2 {
		h.Owner = store.Owner{Host: "here", Note: fmt.Sprint("note ", i)}.Stored()
		announces(says, "another note", func() { renew(&h) })
		announces(0, "the same note", func() { renew(&h); renew(&h) })
	}
	announces(says, "a release", func() { release(h) })
	announces(says, "a grant of a known name", func() { h = mustHold(t, s, claim()) })
	one, two, three := claim(), claim(), claim()
	announces(0, "waiters", func() { mustAsk(t, s, one); mustAsk(t, s, two); mustAsk(t, s, three); mustAsk(t, s, one) })
	announces(0, "a renewal beside waiters", func() { renew(&h) })
	announces(0, "a waiter leaves", func() { release(store.Hold{Name: name, ID: three.ID}) })
	announces(says, "a release to a waiter", func() { release(h) }) // found by the full statement
	h = mustHold(t, s, one)
	announces(says, "a release to the next", func() { release(h) }) // done by the short one
	announces(says, "a granted waiter withdraws", func() { release(store.Hold{Name: name, ID: two.ID}) })
	h, second := mustHold(t, s, claim()), mustHold(t, s, mutex(name+" too"))
	announces(says, "a release of several", func() {
		for _, err := range s.ReleaseAll(t.Context(), []store.Hold{h, second}) { // a single one has a statement of its own
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	h = mustHold(t, s, claim())
	announces(0, "a try in vain", func() {
		c := claim()
		c.Try = true
		mustAsk(t, s, c)
	})
	to := h
	to.NewID = store.Process{}.NewID()
	announces(says, "another id", func() { renew(&to) })
	to.ID, to.NewID = to.NewID, store.ID{}
	announces(1, "a break", func() {
		if err := other.BreakHold(t.Context(), store.Break{Name: name, ID: to.ID, Token: h.Token, Now: true}); err != nil {
			t.Fatal(err)
		}
	})
	announces(says, "a grant beside a broken hold", func() { mustHold(t, s, claim()) })
}

func election(name string) store.Claim {
	c := mutex(name)
	c.Announce = true
	return c
}

// watched counts how often the name is reported as changed.
func watched(t *testing.T, s *Store, name string) (n *atomic.Int64, stop func()) {
	t.Helper()
	n = new(atomic.Int64)
	stop, err := s.WatchName(t.Context(), name, func() { n.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	return n, stop
}

// Waiters and watchers listen on one connection. It stays open as long as there is one of them.
func TestAllThatAStoreListensToIsOnOneConnection(t *testing.T) {
	t.Parallel()
	addr := testserver.Postgres(t).Addr
	direct := poolOn(t, addr)
	s := tableOn(t, poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "ours" }), nil)
	defer s.Close()
	s.pingEvery = time.Hour // so LISTEN is its newest statement
	listening := func(what string) int {
		return pgtest.One[int](t, direct, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'ours' AND query ~ '"+what+"'")
	}
	n, one := watched(t, s, "one")
	_, too := watched(t, s, "one")
	_, two := watched(t, s, "two")
	if got := listening("LISTEN"); got != 1 {
		t.Errorf("got %d connections that listen, want 1", got)
	}
	too()
	mustHold(t, s, election("one"))
	until(t, "the remaining watcher is notified", func() bool { return n.Load() > 0 })
	one()
	until(t, "one name is no longer listened to", func() bool { return listening("UNLISTEN \""+nameChannel("one")) == 1 })
	two()
	until(t, "no connection listens", func() bool { return listening("LISTEN") == 0 })
	next := mailboxOf(t, s)
	handOver(t, s, "after that", next)
	n, again := watched(t, s, "one")
	defer again()
	if got := listening("LISTEN"); got != 1 {
		t.Errorf("got %d connections that listen, want 1", got)
	}
	handOver(t, s, "beside one who watches", next)
	if n.Load() != 0 {
		t.Error("the watcher of one name got the notification of another")
	}
	again()
	until(t, "one name is no longer listened to", func() bool { return listening("UNLISTEN \""+nameChannel("one")) == 1 })
	handOver(t, s, "who waits goes on to listen", next)
}

func TestAWatcherOfANameLearnsOfMissedNotifications(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	direct := poolOn(t, server.Addr)
	s := tableOn(t, poolOn(t, server.Addr), nil)
	defer s.Close()
	n, stop := watched(t, s, "n")
	defer stop()
	for range 2 {
		before := n.Load()
		until(t, "the connection that listens is terminated", func() bool {
			return pgtest.One[int](t, direct, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 1
		})
		until(t, "the watcher is notified once it listens again", func() bool { return n.Load() > before })
		before = n.Load()
		h := mustHold(t, s, election("n"))
		until(t, "the watcher is notified of a grant", func() bool { return n.Load() > before })
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutNotificationsNoNameIsWatched(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	s := tableOn(t, poolOn(t, addr), &Options{NoListen: true})
	defer s.Close()
	if _, err := s.WatchName(t.Context(), "n", func() {}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("with NoListen: %v, want ErrUnsupported", err)
	}
	through := tableOn(t, poolOn(t, testserver.PgBouncer(t, addr, 4).Addr), &Options{Schema: apart(t, addr)})
	defer through.Close()
	if _, err := through.WatchName(t.Context(), "n", func() {}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("through a pooler: %v, want ErrUnsupported", err)
	}
	closed := tableOn(t, poolOn(t, addr), nil)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := closed.WatchName(t.Context(), "n", func() {}); err == nil {
		t.Error("a closed store watches a name")
	}
}

// A watcher is notified of the removal of a dead process's hold, whoever finds it.
func TestARemovedHoldIsAnnounced(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	n, stop := watched(t, s, "n")
	defer stop()
	h := mustHold(t, s, election("n"))
	mustRenew(t, s, h) // a session keeps it from now on
	until(t, "the grant is announced", func() bool { return n.Load() > 0 })
	before := n.Load()
	s.claims.mu.Lock()
	s.claims.of[h.ID].ends = store.Now() // nobody has renewed it
	s.claims.mu.Unlock()
	s.poke()
	until(t, "the hold is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
	until(t, "the removal is announced", func() bool { return n.Load() > before })
}
