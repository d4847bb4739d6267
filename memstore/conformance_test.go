package memstore

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	s := New()
	storetest.Run(t, func(*testing.T) store.Store { return s })
}

// In a bubble years pass, and each subtest has a store of its own.
func TestStoreForYears(t *testing.T) {
	var stores sync.Map
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := stores.LoadOrStore(t, New())
		return s.(*Store)
	}, synctest.Test)
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
