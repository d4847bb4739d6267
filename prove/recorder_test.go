package prove

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A teller is a store without queue positions that reports losses.
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

// An earlier is a store whose positions count from before the ask, as positions that a session keeps do.
type earlier struct {
	*memstore.Store
	by time.Duration
}

func (s *earlier) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.Store.Ask(ctx, c)
	a.From = store.Now().Add(-s.by)
	return a, err
}

func (s *earlier) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.Store.Poll(ctx, c)
	a.From = store.Now().Add(-s.by)
	return a, err
}

// A waiter whose polls confirm its position does not ask again.
func TestAPositionConfirmedByPollsIsTheSame(t *testing.T) {
	s := &earlier{memstore.New(), 10 * time.Second}
	defer s.Close()
	var events []Event
	now := time.Hour
	r := newRecorder(s, time.Minute, func() time.Duration { return now }, func(e Event) { events = append(events, e) })
	for range 2 {
		c := store.Claim{Name: "a", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: time.Minute, Block: 1}
		for step := range 4 {
			var err error
			if now += 40 * time.Second; step%3 == 0 {
				_, err = r.store().Ask(t.Context(), c)
			} else {
				_, err = r.store().(store.Poller).Poll(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(events) != 1 { // that of the claim that waits
		t.Errorf("got events: %+v", events)
	}
}

func TestAPositionThatCountsFromASessionMayLapseSooner(t *testing.T) {
	s := &earlier{memstore.New(), 50 * time.Second}
	defer s.Close()
	var events []Event
	now := time.Hour
	r := newRecorder(s, time.Minute, func() time.Duration { return now }, func(e Event) { events = append(events, e) })
	p := store.NewProcess()
	ask := func(id store.ID) {
		t.Helper()
		c := store.Claim{Name: "a", ID: id, Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: time.Minute, Block: 1}
		if _, err := r.store().Ask(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	ask(p.NewID())
	waits := p.NewID()
	for _, step := range []struct {
		after time.Duration
		noted int
	}{{0, 1}, {5 * time.Second, 1}, {15 * time.Second, 2}} {
		now += step.after
		if ask(waits); len(events) != step.noted {
			t.Fatalf("after %v more: got %d notes: %+v", step.after, len(events), events)
		}
	}
}

func TestWaitersOfAStoreWithoutPositionsAreKnown(t *testing.T) {
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
		t.Errorf("got events: %+v", events)
	}

	var lost store.ID
	r.store().(store.LossTeller).TellLosses(func(id store.ID, _ error) { lost = id })
	if s.told(ids[0], errors.New("gone")); lost != ids[0] {
		t.Error("the store's report of a loss is not passed on")
	}
}
