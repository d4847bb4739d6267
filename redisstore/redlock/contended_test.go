package redlock

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Eight claimants use five nodes, of which up to two are dead. Each has its turn in the order of the queue positions, so the shares are equal,
// and nobody is ever stuck. The test counts the turns of others while one waits: how soon each asks again depends on the machine.
func TestEightClaimantsOnFiveNodesShareEvenlyAndProceed(t *testing.T) {
	t.Parallel()
	const claimants, turns = 8, 20
	addrs := testserver.SharedRedises(t, 5)
	for dead := range 3 {
		o := apart()
		nodes := slices.Clone(addrs)
		for i := range dead {
			nodes[i] = []string{"127.0.0.1:1", "127.0.0.1:2"}[i]
		}
		var mu sync.Mutex
		var order []int // who had each turn
		most := 0       // turns of one other claimant while somebody waited
		var last int64
		inside := false
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range claimants {
			s := trusting(t, clientsOf(t, nodes...), o)
			t.Cleanup(func() { s.Close() })
			me := store.NewProcess()
			wake := make(chan store.Notification, 1)
			if err := s.Watch(t.Context(), me, func(h store.Notification) {
				select {
				case wake <- h:
				default:
				}
			}); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				<-begin
				for range turns {
					c := mutex("hot")
					c.ID = me.NewID()
					began := time.Now()
					a, err := s.Ask(t.Context(), c)
					mu.Lock()
					placed := len(order) // turns before this ask
					mu.Unlock()
					for err == nil && !a.Granted {
						if time.Since(began) > patience {
							t.Errorf("%d dead nodes: claimant %d makes no progress: %+v", dead, i, a)
							return
						}
						select {
						case <-wake:
						case <-time.After(max(min(a.Until, c.PositionTTL/4), time.Millisecond)): // or its position would expire
						}
						a, err = s.Ask(t.Context(), c)
					}
					if err != nil {
						t.Errorf("%d dead nodes: Ask: %v", dead, err)
						return
					}
					mu.Lock()
					if inside || a.Token <= last {
						t.Errorf("%d dead nodes: got token %d after %d, another holder: %v", dead, a.Token, last, inside)
					}
					passed := make([]int, claimants)
					for _, other := range order[placed:] {
						passed[other]++
					}
					if slices.Max(passed) > 2 { // a claimant that arrived at the same moment can have two turns
						t.Errorf("%d dead nodes: while claimant %d waited, the others got %v turns", dead, i, passed)
					}
					most = max(most, slices.Max(passed))
					order, last, inside = append(order, i), a.Token, true
					mu.Unlock()
					mu.Lock()
					inside = false
					mu.Unlock()
					if err := s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
						t.Errorf("%d dead nodes: release: %v", dead, err)
						return
					}
				}
			})
		}
		close(begin)
		all.Wait()
		if t.Failed() {
			return
		}
		share := make([]int, claimants)
		for _, i := range order[:len(order)*3/4] {
			share[i]++
		}
		t.Logf("%d dead nodes: shares of the first %d turns: %v; most turns of another while one waited: %d", dead, len(order)*3/4, share, most)
	}
}
