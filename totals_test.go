package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// A version of a program that uses a semaphore with a number of slots of its own.
type version struct {
	total  int
	counts *slotCounts
	locks  *Locker
	worked int // how many claims were granted; guarded by counts.mu
}

// slotCounts has the number of held slots, by the total of the holder.
type slotCounts struct {
	mu   sync.Mutex
	held map[int]int
}

// check is called with c.mu held.
func (c *slotCounts) check(t *testing.T) {
	all, least := 0, 1<<30
	for total, n := range c.held {
		if n > 0 {
			all, least = all+n, min(least, total)
		}
	}
	if all > least {
		t.Errorf("%d slots are held, but one holder has a total of %d: %v", all, least, c.held)
	}
}

// work takes slots again and again, one and three at a time, until ctx ends.
func (v *version) work(t *testing.T, ctx context.Context, k int) {
	s := v.locks.Semaphore("workers", v.total)
	for ctx.Err() == nil {
		l, err := s.Acquire(ctx, k)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return
		}
		if err != nil {
			t.Errorf("claim with a total of %d slots: %v", v.total, err)
			return
		}
		v.counts.mu.Lock()
		v.counts.held[v.total] += k
		v.worked++
		v.counts.check(t)
		v.counts.mu.Unlock()
		time.Sleep(time.Second)
		v.counts.mu.Lock()
		v.counts.held[v.total] -= k
		v.counts.mu.Unlock()
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

// B32: a version with another number of slots replaces the one before, replica by
// replica. No claim fails, every replica makes progress, and the held slots never
// exceed the total of any holder.
func TestSemaphore_ItsTotalChangesInARollingDeploy(t *testing.T) {
	for _, totals := range [][2]int{{5, 3}, {3, 5}} {
		t.Run(fmt.Sprint(totals[0], " to ", totals[1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, counts := memstore.New(), &slotCounts{held: map[int]int{}}
				start := func(total int) (v *version, stop func()) {
					s := linkTo(t, mem)
					s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
					v = &version{total: total, counts: counts, locks: locker(t, withNotifications{s}, nil)}
					ctx, cancel := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for _, k := range []int{1, 1, 3} {
						all.Go(func() { v.work(t, ctx, k) })
					}
					return v, func() { cancel(); all.Wait() }
				}
				const replicas = 3
				var stops [replicas]func()
				var of [replicas]*version
				for i := range replicas {
					of[i], stops[i] = start(totals[0])
				}
				for i := range replicas {
					time.Sleep(time.Minute)
					stops[i]()
					of[i], stops[i] = start(totals[1])
					time.Sleep(time.Minute)
					counts.mu.Lock()
					for _, v := range of {
						if v.worked == 0 {
							t.Errorf("after step %d a replica with a total of %d slots has acquired nothing", i, v.total)
						}
						v.worked = 0
					}
					counts.mu.Unlock()
				}
				for i := range replicas {
					stops[i]()
				}
			})
		})
	}
}
