package redlock

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Where one node of three takes no writes, the next owner needs both of the
// others. So a release waits for both, and an answer of the third does not count:
// neither that it never had the hold, nor that it has released it.
func TestAReleaseWaitsForTheNodesThatTheNextNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, on string
		before   bool // the hold is on the third node too
	}{
		{"never on the full one", "CONFIG SET maxmemory 1", false},
		{"released on the full one", "CONFIG SET maxmemory 1", true},
		{"never on the read-only one", "REPLICAOF 127.0.0.1 1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			good := clientsOf(t, servers[0].Addr)[0]
			s.straggle = patience // for as long as the frozen one needs
			var h store.Hold
			if c.before {
				h = mustHold(t, s, mutex("x"))
				idle(t, s)
			}
			tell(t, clientsOf(t, servers[2].Addr)[0], c.on)
			until(t, "the node is seen to take no writes", func() bool {
				free(t, s, "y")
				return !s.nodes[2].grants()
			})
			if !c.before {
				h = mustHold(t, s, mutex("x"))
			}
			idle(t, s)

			servers[1].Freeze()
			for i, took := range []time.Duration{time.Microsecond, time.Minute} { // it has been slow all along
				for range s.nodes[i].fastest {
					s.nodes[i].took(took, false)
				}
			}
			released := make(chan error, 1)
			go func() { released <- s.Release(t.Context(), h) }()
			until(t, "all but the frozen node have answered", func() bool {
				left, err := good.Get(t.Context(), s.key("x")).Result()
				if err != nil {
					t.Fatal(err)
				}
				return len(left) == headSize && busy(s) == 1
			})
			select {
			case err := <-released:
				t.Errorf("it is released before the next can have it: %v", err)
				servers[1].Thaw()
				return
			case <-time.After(100 * time.Millisecond):
			}
			servers[1].Thaw()
			if err := <-released; err != nil {
				t.Error(err)
			}
			free(t, s, "x")
		})
	}
}
