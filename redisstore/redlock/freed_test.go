package redlock

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// If one node of three takes no writes, the next owner needs both others. So a release waits for both, and an answer of the third does not
// count, whether it never had the hold or has released it.
func TestAReleaseWaitsForTheNodesThatTheNextNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, on string
		before   bool // the hold is on the third node too
	}{
		{"never on the full node", "CONFIG SET maxmemory 1", false},
		{"released on the full node", "CONFIG SET maxmemory 1", true},
		{"never on the read-only node", "REPLICAOF 127.0.0.1 1", false},
		{"never on the dead node", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			good := clientsOf(t, servers[0].Addr)[0]
			s.straggle = time.Millisecond // it matters: with only the other two nobody can acquire the lock
			var h store.Hold
			if c.before {
				h = holdOnAll(t, s, mutex("x"))
			}
			if c.on == "" {
				servers[2].Kill()
			} else {
				tell(t, clientsOf(t, servers[2].Addr)[0], c.on)
			}
			until(t, "the node is known to accept no writes", func() bool {
				free(t, s, "y")
				return !s.nodes[2].grants()
			})
			if !c.before {
				h = mustHold(t, s, mutex("x"))
			}
			idle(t, s)

			servers[1].Freeze()
			for i, took := range []time.Duration{time.Microsecond, time.Minute} { // the node was slow all along
				for range s.nodes[i].fastest {
					s.nodes[i].took(took, false)
				}
			}
			released := make(chan error, 1)
			go func() { released <- s.Release(t.Context(), h) }()
			until(t, "all nodes but the frozen one have answered", func() bool {
				left, err := good.Get(t.Context(), s.key("x")).Result()
				if err != nil {
					t.Fatal(err)
				}
				return len(left) == headSize && busy(s) == 1
			})
			for range rounds {
				select {
				case err := <-released:
					t.Errorf("the release returned before the next claim can be granted: %v", err)
					servers[1].Thaw()
					return
				case <-time.After(moment):
				}
			}
			servers[1].Thaw()
			if err := <-released; err != nil {
				t.Error(err)
			}
			free(t, s, "x")
		})
	}
}

// A wrong early return has time to happen in this many rounds of a goroutine that sleeps for a moment in each: on a busy machine the rounds
// take longer, too.
const rounds, moment = 50, 5 * time.Millisecond

// slowRelease delays a release to its node for some rounds, or until the caller has what it waited for.
type slowRelease struct {
	sha    string
	asked  chan struct{} // the caller closes it
	sooner atomic.Bool   // the caller had it before the node got the release
	met    atomic.Bool
}

// waited returns a channel that is closed after the rounds.
func (h *slowRelease) waited() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range rounds {
			time.Sleep(moment)
		}
	}()
	return over
}

func (h *slowRelease) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *slowRelease) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *slowRelease) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == h.sha {
			h.met.Store(true)
			select {
			case <-h.asked:
				h.sooner.Store(true)
			case <-h.waited():
			}
		}
		return next(ctx, cmd)
	}
}

// If one node of three is dead, the next owner needs both others. One of them granted a try and the other refused it. The try returns only
// once that grant is released, however slow its node is.
func TestARefusedTryIsReleasedOnTheNodesThatTheNextNeeds(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	s.straggle = time.Millisecond
	servers[2].Kill()
	until(t, "the node is known to be dead", func() bool {
		free(t, s, "y")
		return !s.nodes[2].grants()
	})
	mustHold(t, s, mutex("x"))
	idle(t, s)
	if err := clientsOf(t, servers[1].Addr)[0].Del(t.Context(), s.key("x")).Err(); err != nil { // so that it grants the try
		t.Fatal(err)
	}
	slow := &slowRelease{sha: s.scripts.release.sha, asked: make(chan struct{})}
	s.nodes[1].client.AddHook(slow)
	c := mutex("x")
	c.Try = true
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted {
		t.Fatalf("got %+v, %v, want it refused", a, err)
	}
	close(slow.asked)
	idle(t, s)
	if !slow.met.Load() || slow.sooner.Load() {
		t.Errorf("got met %v, returned before the next claim can be granted: %v", slow.met.Load(), slow.sooner.Load())
	}
}

// A hold that was released on most of the nodes that answered is shown as released, even if other nodes still have it.
func TestARefusalShowsWhatIsReleasedOnMostNodesAsReleased(t *testing.T) {
	t.Parallel()
	const now, kept = 1_000_000, int64(30_000_000)
	held := entry{id: mutex("x").ID, p: 7, weight: store.Full, limit: store.Full, accepted: true, expires: now + 60_000_000}
	released := held
	released.expires, released.keep, released.shown, released.since = 0, kept, true, now
	for _, c := range []struct {
		name  string
		nodes []entry
		ends  int64
	}{
		{"on all", []entry{released, released, released}, kept},
		{"not on the first", []entry{held, released, released}, kept},
		{"not on the last", []entry{released, released, held}, kept},
		{"on one of three", []entry{released, held, held}, 60_000_000},
		{"on one of two that answered", []entry{held, released}, kept},
	} {
		counted := tally{nodes: 3, quorum: func(int64) int { return 2 }}
		for _, e := range c.nodes {
			counted.refused = append(counted.refused, refusal{now: now, holding: 1, holders: []entry{e}})
		}
		a := counted.refusal(&claim{})
		if len(a.Holders) != 1 {
			t.Fatalf("%s: got %d holders, want 1", c.name, len(a.Holders))
		}
		e := a.Holders[0]
		if got, want := e.Ends, duration(c.ends); got != want || a.Until != want || (e.Expires <= 0) != (c.ends == kept) {
			t.Errorf("%s: got expiry in %v, end in %v, next poll in %v, want %v", c.name, e.Expires, got, a.Until, want)
		}
	}
}

// The votes of a hold were given one after another. The hold is as old as the first vote, whichever node's copy is shown: otherwise it could
// be younger after a renewal than before.
func TestAHoldIsAsOldAsItsFirstVote(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	e := entry{p: 7, weight: store.Full, limit: store.Full, accepted: true}
	first, second := e, e
	first.since, second.since = now-9000, now-5000
	for _, left := range [][2]int64{{1000, 2000}, {2000, 1000}} {
		first.expires, second.expires = now+left[0], now+left[1]
		older := e // a claim of the same id, but no vote of this hold
		older.p, older.since, older.expires = 3, now-70_000, now+500
		c := standing([]copied{{entry: second, now: now}, {entry: older, now: now}, {entry: first, now: now}}, 2, 3)
		if got, want := c.show(true).Age, duration(9000); got != want {
			t.Errorf("one vote left %v, the other %v: got age %v, want %v", left[0], left[1], got, want)
		}
	}
}
