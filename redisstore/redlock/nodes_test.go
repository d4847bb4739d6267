package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
)

// nodes starts n servers for this test alone, and returns a Store on them.
func nodes(t *testing.T, n int, o Options) ([]*testserver.Server, *Store) {
	t.Helper()
	servers, addrs := make([]*testserver.Server, n), make([]string, n)
	for i := range servers {
		servers[i] = testserver.Redis(t)
		addrs[i] = servers[i].Addr
	}
	s := trusting(t, clientsOf(t, addrs...), &o)
	t.Cleanup(func() { s.Close() })
	allUp(t, s)
	s.trusts = false // from now on
	return servers, s
}

// until waits for a condition that must come true.
var until = testwait.Until

// holdOnAll returns a hold for which each node has given its vote. A node that a busy machine asked late gives its vote only with a renewal:
// until then there is no vote to lose.
func holdOnAll(t testing.TB, s *Store, c store.Claim) store.Hold {
	t.Helper()
	h := mustHold(t, s, c)
	idle(t, s)
	until(t, "each node has voted", func() bool {
		for _, n := range s.nodes {
			if !votedFor(t, n, h) {
				if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
					t.Fatalf("renew: %v", err)
				}
				idle(t, s)
				return false
			}
		}
		return true
	})
	return h
}

// votedFor reports whether the node has the hold and nothing else of its name.
func votedFor(t testing.TB, n *node, h store.Hold) bool {
	t.Helper()
	value, _ := n.client.Get(t.Context(), n.s.key(h.Name)).Result()
	_, all, err := n.parse(h.Name, value)
	return err == nil && len(all) == 1 && all[0].accepted && all[0].p == h.Token
}

// allUp waits until the Store uses all its nodes.
func allUp(t testing.TB, s *Store) {
	t.Helper()
	s.start()
	until(t, "all nodes are in use", func() bool { return nodesUp(s) == len(s.nodes) })
}

// nodesUp returns how many nodes the Store uses.
func nodesUp(s *Store) (ups int) {
	for _, n := range s.nodes {
		n.mu.Lock()
		if n.state == up {
			ups++
		}
		n.mu.Unlock()
	}
	return ups
}

// busy returns how many nodes have work to do.
func busy(s *Store) (all int) {
	for _, n := range s.nodes {
		n.mu.Lock()
		if n.lanes[0].flying || n.lanes[1].flying {
			all++
		}
		n.mu.Unlock()
	}
	return all
}

// idle waits until all requests have been answered: a call returns before the last node has got its request.
func idle(t testing.TB, s *Store) {
	t.Helper()
	for begun := time.Now(); busy(s) > 0; time.Sleep(50 * time.Microsecond) {
		if time.Since(begun) > patience {
			t.Fatalf("after %v nodes are still busy", patience)
		}
	}
}

// flying waits until all nodes, which are frozen, have been sent a request.
func flying(t testing.TB, s *Store) {
	t.Helper()
	until(t, "all nodes have a request", func() bool { return busy(s) == len(s.nodes) })
}

// tell sends a node a command as a user would type it.
func tell(t *testing.T, client *redis.Client, text string) {
	t.Helper()
	var args []any
	for _, word := range strings.Fields(text) {
		args = append(args, word)
	}
	if err := client.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func free(t *testing.T, s *Store, name string) {
	t.Helper()
	c := mutex(name)
	c.Try = true
	h := mustHold(t, s, c)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}
