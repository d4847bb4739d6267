package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Fewer than a majority of the nodes are frozen at any time, but not always the same ones. Some nodes have no vote for a lease, as they were
// down or slow when it was granted, and return before others that have one freeze. The nodes that answer are a majority, so they give the
// missing votes and the lease goes on.
func TestALeaseOutlivesTheNodesThatGrantedIt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		for _, missed := range []string{"away", "slow"} {
			t.Run(fmt.Sprintf("%d nodes, some %s", n, missed), func(t *testing.T) {
				t.Parallel()
				outlives(t, n, missed)
			})
		}
	}
}

func outlives(t *testing.T, n int, missed string) {
	const names = 20
	servers, s := nodes(t, n, Options{Timeout: longAnswer})
	first, last := servers[:n/2], servers[n-n/2:]
	each := func(some []*testserver.Server, do func(*testserver.Server)) {
		for _, server := range some {
			do(server)
		}
	}
	each(last, (*testserver.Server).Freeze)
	if missed == "away" {
		for _, node := range s.nodes[n-n/2:] {
			node.lose(errNotYet, nil) // the store checks it for as long as it is frozen
		}
	}
	var holds []store.Hold
	for i := range names {
		c := mutex(fmt.Sprint("name ", i))
		c.TTL = DefaultMaxTTL
		holds = append(holds, mustHold(t, s, c))
	}
	time.Sleep(2 * margin) // the numbers are behind the nodes' clocks by then
	each(last, (*testserver.Server).Thaw)
	until(t, "all nodes are in use", func() bool { return nodesUp(s) == n })
	idle(t, s)

	each(first, (*testserver.Server).Freeze)
	until(t, "the nodes that answer have renewed all holds", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // as the engine bounds it: it does not wait for the frozen ones
		defer cancel()
		renewed := 0
		for i, r := range s.Renew(ctx, holds) {
			switch {
			case r.Err == nil:
				renewed++
			case errors.Is(r.Err, store.ErrLost):
				t.Fatalf("renew %q: %v", holds[i].Name, r.Err)
			}
		}
		return renewed == names
	})
	each(first, (*testserver.Server).Thaw)
	for _, h := range holds {
		if err := s.Release(t.Context(), h); err != nil {
			t.Errorf("release %q: %v", h.Name, err)
		}
	}
	until(t, "all nodes are in use again", func() bool { return nodesUp(s) == n })
	for _, h := range holds {
		free(t, s, h.Name)
	}
}

// After the deadline no vote is restored to a claim that has too few: somebody else may have the lock by then.
func TestNoVoteIsRestoredAfterTheDeadline(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	h := holdOnAll(t, s, mutex("x"))
	if err := clientsOf(t, servers[2].Addr)[0].Del(t.Context(), s.key("x")).Err(); err != nil {
		t.Fatal(err)
	}
	servers[1].Kill()
	until(t, "the dead node is out of use", func() bool {
		free(t, s, "y") // it sends nothing to a node but a release, if that overtakes its ask on the way
		return nodesUp(s) == 2
	})
	s.claims.get(h.ID).deadline = store.Now()
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("renewal by one node of three: %v, want ErrUnavailable", err)
	}
	idle(t, s)
	if n := clientsOf(t, servers[2].Addr)[0].Exists(t.Context(), s.key("x")).Val(); n != 0 {
		t.Error("a vote was restored after the deadline")
	}
}
