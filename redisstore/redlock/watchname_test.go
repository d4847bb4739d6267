package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// published returns how many messages the nodes were told to publish.
func published(t *testing.T, servers []*testserver.Server) (all int) {
	t.Helper()
	for _, server := range servers {
		info, err := clientsOf(t, server.Addr)[0].Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(info) {
			n := 0
			fmt.Sscanf(line, "cmdstat_publish:calls=%d,", &n)
			all += n
		}
	}
	return all
}

func election(name string) store.Claim {
	c := mutex(name)
	c.Announce = true
	return c
}

// Each node publishes its own changes. A late node is asked once more, and then there is one message more.
func TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	for name, says := range map[string]int{"lock": 0, "election": len(servers)} {
		announces := func(want int, what string, do func()) {
			t.Helper()
			before := published(t, servers)
			do()
			idle(t, s)
			if got := published(t, servers) - before; got < want || want == 0 && got > 0 {
				t.Errorf("%s: %s: got %d messages, want %d", name, what, got, want)
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
			idle(t, s)
		}
		release := func(h store.Hold) {
			t.Helper()
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		var h store.Hold
		announces(says, "a grant", func() { h = holdOnAll(t, s, claim()) })
		announces(0, "renewals", func() { renew(&h); renew(&h) })
		h.Owner = store.Owner{Host: "here", Note: "new"}.Stored()
		announces(says, "another note", func() { renew(&h) })
		announces(0, "the same note", func() { renew(&h); renew(&h) })
		announces(0, "a try in vain", func() {
			c := claim()
			c.Try = true
			mustAsk(t, s, c)
		})
		announces(says, "a release", func() { release(h) })
		h = holdOnAll(t, s, claim())
		w := claim()
		mustAsk(t, s, w)
		idle(t, s)
		announces(says+len(servers), "a release to a waiter, which is notified", func() {
			mustAsk(t, s, w) // or its position may have expired
			idle(t, s)
			release(h)
		})
		announces(says, "the grant of its ask", func() { h = holdOnAll(t, s, w) })
		to := h
		to.NewID = store.Process{}.NewID()
		announces(says, "another id", func() { renew(&to) })
		announces(len(servers), "a break", func() {
			if err := s.BreakHold(t.Context(), store.Break{Name: name, ID: to.NewID, Token: h.Token, Now: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What one node announces may not have reached a majority yet.
func TestAWatcherIsNotifiedAgainOnceAllNodesHadTime(t *testing.T) {
	t.Parallel()
	_, s := nodes(t, 3, Options{})
	var n atomic.Int64
	var stop func()
	s.timeout = 2 * time.Second // the time that all nodes get; on a busy machine it may be too short to subscribe
	until(t, "the name is watched", func() (ok bool) {
		var err error
		stop, err = s.WatchName(t.Context(), "n", func() { n.Add(1) })
		return err == nil
	})
	s.timeout = longAnswer
	defer stop()
	until(t, "each node is watched", func() bool {
		for _, node := range s.nodes {
			if subs, err := node.client.PubSubNumSub(t.Context(), s.key("n")).Result(); err != nil || subs[s.key("n")] != 1 {
				return false
			}
		}
		return true
	})
	n.Store(0)
	holdOnAll(t, s, election("n"))
	until(t, "the watcher is notified for each node, and once more", func() bool { return n.Load() > int64(len(s.nodes)) })
}

func TestANodeThatWasAwayIsWatchedWhenItIsBack(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	servers[2].Kill()
	var n atomic.Int64
	stop, err := s.WatchName(t.Context(), "n", func() { n.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	servers[2].Restart()
	until(t, "the watcher is notified that it may have missed something", func() bool { return n.Load() > 0 })
	servers[0].Kill()
	servers[1].Kill()
	if _, err := s.WatchName(t.Context(), "m", func() {}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with one node of three: %v, want ErrUnavailable", err)
	}
}
