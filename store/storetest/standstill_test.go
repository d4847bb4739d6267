package storetest

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A machine can stand still between any two steps of a trial, for longer than a hold lasts, or take long for each step. Such a
// trial proves nothing and is repeated: it is no failure of the store. This test tries that in a bubble, at each step of each promise.
func TestAMachineThatStandsStillFailsNoPromise(t *testing.T) {
	t.Parallel()
	large := map[string]bool{} // these have too many steps, and enough time
	for _, some := range [][]promise{crowdPromises, largePromises, namePromises} {
		for _, p := range some {
			large[p.name] = true
		}
	}
	for _, p := range promises() {
		if large[p.name] {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.standsStill(t, each, 40*time.Millisecond)
			p.standsStill(t, each, 150*time.Millisecond)
			for _, lasts := range []time.Duration{60 * time.Millisecond, 9970 * time.Millisecond, 11 * time.Second} { // more than the shortest hold, hardly less than a position, and more
				for step := int64(0); p.standsStill(t, step, lasts) > step; step++ {
				}
			}
		})
	}
}

// each, instead of a step, means that the machine is slow at every step.
const each = -1

// standsStill tests the promise on a machine that stands still for so long at that step, and returns the number of steps.
func (p *promise) standsStill(t *testing.T, step int64, lasts time.Duration) (steps int64) {
	synctest.Test(t, func(t *testing.T) {
		s := standstill{memstore.New(), new(atomic.Int64), step, lasts}
		untilInTime(t, p.run, func(again int) *trial {
			tr := newTrial(t, func(*testing.T) store.Store { return s }, s.Describe())
			tr.slower(again)
			return tr
		})
		steps = s.steps.Load()
	})
	if t.Failed() {
		t.Fatalf("the machine stood still for %v at step %d", lasts, step)
	}
	return steps
}

// A standstill is a store on a machine that stands still before or after an operation.
type standstill struct {
	*memstore.Store
	steps *atomic.Int64
	at    int64
	lasts time.Duration
}

func (s standstill) step() {
	if n := s.steps.Add(1) - 1; n == s.at || s.at == each {
		time.Sleep(s.lasts)
	}
}

func (s standstill) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.step()
	defer s.step()
	return s.Store.Ask(ctx, c)
}

func (s standstill) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.step()
	defer s.step()
	return s.Store.Poll(ctx, c)
}

func (s standstill) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	s.step()
	defer s.step()
	return s.Store.Renew(ctx, holds)
}

func (s standstill) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	s.step()
	defer s.step()
	return s.Store.Change(ctx, h, turn, weight)
}

func (s standstill) Release(ctx context.Context, h store.Hold) error {
	s.step()
	defer s.step()
	return s.Store.Release(ctx, h)
}

func (s standstill) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	s.step()
	defer s.step()
	return s.Store.ReleaseAll(ctx, holds)
}

func (s standstill) BreakHold(ctx context.Context, b store.Break) error {
	s.step()
	defer s.step()
	return s.Store.BreakHold(ctx, b)
}

func (s standstill) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	s.step()
	defer s.step()
	return s.Store.List(ctx, name)
}
