package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// published returns how many messages the server was told to publish.
func published(t *testing.T, eyes *redis.Client) (n int) {
	t.Helper()
	info, err := eyes.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		fmt.Sscanf(line, "cmdstat_publish:calls=%d,", &n)
	}
	return n
}

// election returns a mutex that others may watch.
func election(name string) store.Claim {
	c := mutex(name)
	c.Announce = true
	return c
}

// This checks what is published in each step of a term, from the grant to the release, with one holder and with several.
func TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	eyes := clientOf(t, server.Addr)
	open, _ := clockedOn(t, clientOf(t, server.Addr), nil) // no claim expires
	s := open()
	publishes := func(want int, what string, do func()) {
		t.Helper()
		before := published(t, eyes)
		do()
		if got := published(t, eyes) - before; got != want {
			t.Errorf("%s: got %d messages, want %d", what, got, want)
		}
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
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	term := func(name string, announce int) {
		claim := func() store.Claim {
			c := mutex(name)
			c.Announce = announce > 0
			return c
		}
		var h store.Hold
		publishes(announce, name+": a grant", func() { h = mustHold(t, s, claim()) })
		publishes(0, name+": renewals", func() { renew(&h); renew(&h) })
		h.Owner = store.Owner{Host: "here", Note: "new"}.Stored()
		publishes(announce, name+": another note", func() { renew(&h) })
		publishes(0, name+": the same note", func() { renew(&h); renew(&h) })
		publishes(announce, name+": a release", func() { release(h) })
		h = mustHold(t, s, claim())
		one, two := claim(), claim()
		publishes(0, name+": waiters", func() { mustAsk(t, s, one); mustAsk(t, s, two); mustAsk(t, s, one) })
		publishes(0, name+": a renewal beside waiters", func() { renew(&h) })
		publishes(1+announce, name+": a release to a waiter, which is notified", func() { release(h) })
		publishes(0, name+": a waiter leaves", func() { release(store.Hold{Name: name, ID: two.ID, Announce: two.Announce}) })
		publishes(announce, name+": a granted waiter withdraws", func() { release(store.Hold{Name: name, ID: one.ID, Announce: one.Announce}) })
		h = mustHold(t, s, claim())
		publishes(0, name+": a try in vain", func() {
			c := claim()
			c.Try = true
			mustAsk(t, s, c)
		})
		to := h
		to.NewID = me.NewID()
		publishes(announce, name+": another id", func() { renew(&to) })
		publishes(1, name+": a break", func() {
			if err := s.BreakHold(t.Context(), store.Break{Name: name, ID: to.NewID, Token: h.Token, Now: true}); err != nil {
				t.Fatal(err)
			}
		})
		publishes(announce, name+": a grant beside a broken hold", func() { mustHold(t, s, claim()) })
	}
	term("lock", 0)
	term("election", 1)
	// From here on the key is a hash.
	for range usual.fewest + 1 {
		mustAsk(t, s, mutex("crowd"))
	}
	st := state(t, s, "crowd")
	h := store.Hold{Name: "crowd", ID: st.Entries[0].ID, Token: st.Entries[0].Token, Announce: true}
	publishes(2, "a release to one of many", func() { release(h) })
}

// If nobody watches the name, the lock sends not one byte more.
func TestAnUnwatchedLockSendsNothingMore(t *testing.T) {
	s := newShared(t)
	c := mutex("n")
	plain := len(s.asking(&s.scripts.ask, &c).args)
	c.Announce = true
	if n := len(s.asking(&s.scripts.ask, &c).args); n != plain+1 {
		t.Errorf("an election sends %d arguments and a lock %d, want one more", n, plain)
	}
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

func TestAWatcherOfANameLearnsOfMissedNotifications(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	eyes := clientOf(t, server.Addr)
	s := storeOn(t, clientOf(t, server.Addr), nil)
	defer s.Close()
	n, stop := watched(t, s, "n")
	defer stop()
	for range 2 {
		before := n.Load()
		if n, err := eyes.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int(); err != nil || n != 1 {
			t.Fatalf("CLIENT KILL: %d, %v", n, err)
		}
		until(t, "the watcher is notified once it is subscribed again", func() bool { return n.Load() > before })
		before = n.Load()
		mustHold(t, s, election("n"))
		until(t, "the watcher is notified of a grant", func() bool { return n.Load() > before })
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: state(t, s, "n").Entries[0].ID}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnUnwatchedNameIsUnsubscribed(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	eyes := clientOf(t, server.Addr)
	s := storeOn(t, clientOf(t, server.Addr), nil)
	defer s.Close()
	subscribers := func(name string) int64 {
		t.Helper()
		n, err := eyes.PubSubNumSub(t.Context(), s.key(name)).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n[s.key(name)]
	}
	_, one := watched(t, s, "one")
	_, too := watched(t, s, "one")
	_, two := watched(t, s, "two")
	one()
	if subscribers("one") != 1 || subscribers("two") != 1 {
		t.Errorf("got %d and %d connections subscribed to two names, want 1 each", subscribers("one"), subscribers("two"))
	}
	too()
	until(t, "one name has no subscription", func() bool { return subscribers("one") == 0 })
	if subscribers("two") != 1 {
		t.Error("the other name has no subscription, either")
	}
	two()
	until(t, "no subscription is left", func() bool {
		all, err := eyes.PubSubChannels(t.Context(), "*").Result()
		return err == nil && len(all) == 0
	})
	n, again := watched(t, s, "one")
	defer again()
	mustHold(t, s, election("one"))
	until(t, "the new watcher is notified", func() bool { return n.Load() > 0 })
}

// A user's rights may cover only some names.
func TestANameThatMayNotBeWatchedIsDeniedAndOthersAreWatched(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	all := append(rights(t), "resetchannels", "&holdfast:hint:*", "&holdfast:{mine*")
	s := storeOn(t, user(t, server, "limited", all...), nil)
	defer s.Close()
	n, stop := watched(t, s, "mine")
	defer stop()
	soon, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.WatchName(soon, "theirs", func() { t.Error("the watcher of a denied name was notified") })
	if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "theirs") {
		t.Fatalf("another user's name: %v, want ErrDenied", err)
	}
	also, end := watched(t, s, "mine too")
	defer end()
	for name, n := range map[string]*atomic.Int64{"mine": n, "mine too": also} {
		until(t, "the watcher of "+name+" is notified", func() bool {
			before := n.Load()
			h := mustHold(t, s, election(name))
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			return n.Load() > before
		})
	}
}

func TestNoNameIsWatchedOnAClosedStore(t *testing.T) {
	t.Parallel()
	s := storeOn(t, clientOf(t, testserver.SharedRedis(t)), apart())
	_, stop := watched(t, s, "n")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := s.WatchName(t.Context(), "n", func() {}); err == nil {
		t.Error("a closed store watches the name")
	}
}
