package redlock

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// occupied puts a hold of another process on each node of the set, separately for each node.
func occupied(t *testing.T, addrs []string, o *Options, name string, set int) {
	t.Helper()
	for i, addr := range addrs {
		if set&(1<<i) == 0 {
			continue
		}
		s := trusting(t, clientsOf(t, addr), o)
		mustHold(t, s, mutex(name))
		s.Close()
	}
}

func TestItIsGrantedExactlyWhenAMajorityIsFree(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 4, 5} {
		addrs, o := testserver.SharedRedises(t, n), apart()
		s := trusting(t, clientsOf(t, addrs...), o)
		s.straggle = longAnswer // the test waits for a node that stalls: it may be the free one
		defer s.Close()
		for set := range 1 << n {
			taken := 0
			for i := range n {
				taken += set >> i & 1
			}
			for _, try := range []bool{true, false} {
				// Each case has a name of its own: a release returns before the last node has done it.
				name := fmt.Sprint("occupied ", set, try)
				occupied(t, addrs, o, name, set)
				c := mutex(name)
				c.Try = try
				for _, n := range s.nodes { // no node may count as slow, or the store would not wait for it
					n.mu.Lock()
					n.measured = 0
					n.mu.Unlock()
				}
				a := mustAsk(t, s, c)
				if want := n-taken > n/2; a.Granted != want {
					t.Errorf("%d nodes, %0*b occupied, a try %v: got granted %v", n, n, set, try, a.Granted)
				}
				if !a.Granted && len(a.Holders) == 0 {
					t.Errorf("%d nodes, %0*b occupied: got a refusal without a holder: %+v", n, n, set, a)
				}
				if err := s.Release(t.Context(), store.Hold{Name: name, ID: c.ID}); err != nil {
					t.Error(err)
				}
				if st := listed(t, s, name); taken <= n/2 && len(st.Entries) != 0 {
					t.Errorf("%d nodes, %0*b occupied: got %+v listed", n, n, set, st)
				}
			}
		}
	}
}

func TestAnInvalidURLIsAnErrorBeforeAnyIO(t *testing.T) {
	clients := clientsOf(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
	s, err := New(clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, edit := range map[string]func(*store.Claim){
		"no name":            func(c *store.Claim) { c.Name = "" },
		"a long TTL":         func(c *store.Claim) { c.TTL = DefaultMaxTTL + 1 },
		"a short TTL":        func(c *store.Claim) { c.TTL = minTTL - 1 },
		"a long minimum":     func(c *store.Claim) { c.MinHold = DefaultMaxTTL + 1 },
		"a long lock delay":  func(c *store.Claim) { c.LockDelay = DefaultMaxTTL + 1 },
		"a weight too large": func(c *store.Claim) { c.Weight = store.Full + 1 },
	} {
		c := mutex("x")
		edit(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	c := mutex("x")
	c.Limit, c.Weight = 2, 1
	if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a semaphore of 2 on 3 nodes: %v, want ErrUnsupported", err)
	}
	if _, err := s.Change(t.Context(), store.Hold{Name: "x"}, 1, store.Full); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Change: %v, want ErrUnsupported", err)
	}
	for _, u := range []string{"redlock:", "redlock:redis://a,b", "redlock:redis://a,redis://b?max-ttl=soon", "redlock:redis://a,redis://a", "redlock:redis://:se%cret@a", "redis://a"} {
		if _, err := Open(u, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", u, err)
		}
	}
	o, merged, err := parseURL("redlock:redis://a,rediss://u:p@b:7/2,redis://c?max-ttl=5s&timeout=70ms&pool_size=3", nil)
	if err != nil || len(o) != 3 || o[1].Addr != "b:7" || o[1].DB != 2 || o[1].TLSConfig == nil || o[2].PoolSize != 3 || merged.MaxTTL.Seconds() != 5 || merged.Timeout.Milliseconds() != 70 {
		t.Errorf("got %+v, %+v, %v", o, merged, err)
	}
}
