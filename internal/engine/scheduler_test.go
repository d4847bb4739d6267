package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// releases is a store that counts releases.
type releases struct {
	*memstore.Store
	n atomic.Int64
}

func (s *releases) Release(ctx context.Context, h store.Hold) error {
	s.n.Add(1)
	return s.Store.Release(ctx, h)
}

// The scheduler has found that MaxHold has passed, and the owner releases the hold
// before the scheduler ends it: two operations on one hold never overlap.
func TestMaxHold_AHoldIsReleasedOnce(t *testing.T) {
	s := &releases{Store: memstore.New()}
	l, err := Open(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := l.With(Options{MaxHold: time.Hour}).Write("a")
	lease, err := w.Try(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := lease.hold
	if last, why := h.leave(lease); !last || why != nil {
		t.Fatal(last, why)
	}
	if tell := l.e.sched.end(h, l.e.now()); tell != nil {
		t.Error("the end is reported, although the hold was released")
	}
	if err := h.give(true); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil { // waits for the release under way
		t.Error(err)
	}
	if n := s.n.Load(); n != 1 {
		t.Errorf("released %d times, want once", n)
	}
}
