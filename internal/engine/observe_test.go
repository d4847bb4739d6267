package engine

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// Without an observer nothing is allocated for one. TestObserver_AllocatesNothing of
// the root package tests the rest.
func TestObserver_WithoutOneNothingIsAllocated(t *testing.T) {
	h := &hold{s: &settings{}, e: &engine{}}
	w := &Target{l: &Locker{e: h.e, s: h.s}}
	if n := testing.AllocsPerRun(100, func() {
		h.e.stamp(h.s)
		h.observe(EventGranted, 1, nil)
		h.observeEnd(store.ErrLost)
		_ = w.failed(nil, store.ID{}, 0, store.ErrHeld)
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
