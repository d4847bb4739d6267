package prove

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A teller is a store of which nobody has a position, and that tells losses.
type teller struct {
	*memstore.Store
	told func(store.ID, error)
}

func (s *teller) TellLosses(told func(store.ID, error)) { s.told = told }

func (s *teller) Describe() store.Description {
	d := s.Store.Describe()
	d.Lacks = map[store.Promise]string{store.PromiseOrder: "so it is", store.PromiseDeadline: "so it is"}
	return d
}

func TestOfAStoreWithoutPositionsItIsKnownWhoWaited(t *testing.T) {
	s := &teller{Store: memstore.New()}
	defer s.Close()
	var events []Event
	r := newRecorder(s, time.Second, func() time.Duration { return 1 }, func(e Event) { events = append(events, e) })
	p := store.NewProcess()
	ids := []store.ID{p.NewID(), p.NewID()}
	claim := func(n int) store.Claim {
		return store.Claim{Name: "a", ID: ids[n], Limit: store.Full, Weight: store.Full, Try: true, TTL: time.Minute, PositionTTL: time.Second, Block: 1}
	}
	for n := range ids {
		if a, err := r.store().Ask(context.Background(), claim(n)); err != nil || a.Granted != (n == 0) {
			t.Fatalf("ask %d: %+v, %v", n, a, err)
		}
	}
	if len(events) != 1 || events[0].Do != placed || events[0].ID != ids[1].String() {
		t.Errorf("noted: %+v", events)
	}

	var lost store.ID
	r.store().(store.LossTeller).TellLosses(func(id store.ID, _ error) { lost = id })
	if s.told(ids[0], errors.New("gone")); lost != ids[0] {
		t.Error("a loss that the store tells does not come through")
	}
}
