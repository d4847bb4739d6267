package memstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	s := New()
	storetest.Run(t, func(*testing.T) store.Store { return s })
}

// In a bubble years can pass, and each subtest has its own store.
func TestStoreForYears(t *testing.T) {
	var stores sync.Map
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := stores.LoadOrStore(t, New())
		return s.(*Store)
	}, synctest.Test)
}

// An unanswering store does the first Watch and some asks, and returns no answer.
type unanswering struct {
	*Store
	asks, watches *int
}

func (u unanswering) Watch(ctx context.Context, p store.Process, hear func(store.Notification)) error {
	if *u.watches++; *u.watches == 1 {
		time.Sleep(4 * time.Second)
		return fmt.Errorf("%w: no answer", store.ErrUnavailable)
	}
	return u.Store.Watch(ctx, p, hear)
}

func (u unanswering) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := u.Store.Ask(ctx, c)
	if *u.asks++; *u.asks%100 == 0 && *u.asks <= 400 {
		time.Sleep(4 * time.Second)
		return store.Answer{}, fmt.Errorf("%w: no answer", store.ErrUnavailable)
	}
	return a, err
}

// The effect of an unanswered operation is unknown, so the rest is compared on a fresh backing.
func TestAComparisonGoesOnAfreshAfterWhatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks, watches, opened := 0, 0, 0
		storetest.Differential(t, storetest.Clocked{
			TwoClocks: true, OneFloor: true,
			Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
				s := newAt(clock)
				opened++
				return func() store.Store { return unanswering{s, &asks, &watches} }
			},
		})
		if opened != 6 {
			t.Errorf("%d backings were opened for one watch and four asks without an answer, want 6", opened)
		}
	})
}

func TestDifferential(t *testing.T) {
	for name, two := range map[string]bool{"two_clocks": true, "one_clock": false} {
		t.Run(name, func(t *testing.T) {
			storetest.Differential(t, storetest.Clocked{
				TwoClocks: two, OneFloor: true,
				Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
					s := newAt(clock)
					return func() store.Store { return s }
				},
				Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
					m := s.(*Store)
					if n := m.names[name]; n != nil {
						return n.Queue
					}
					return queue.Queue{Last: m.last}
				},
			})
		})
	}
}
