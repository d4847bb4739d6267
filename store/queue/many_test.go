package queue_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// One release grants a thousand waiters of one name, in order. Each is notified, and all are listed.
func TestAThousandWaitersAreGrantedInOrder(t *testing.T) {
	const n = 1000
	var q queue.Queue
	now, p := queue.Time{Wall: 1}, store.NewProcess()
	claim := func(weight int64) store.Claim {
		return store.Claim{Name: "n", ID: p.NewID(), Limit: store.Full, Weight: weight, TTL: time.Minute, PositionTTL: 10 * time.Second}
	}
	first := claim(store.Full)
	a, _, err := q.Ask(now, "n", &first)
	if err != nil || !a.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	all := make([]store.Claim, n)
	for i := range all {
		all[i] = claim(1)
		if a, _, err := q.Ask(now, "n", &all[i]); err != nil || a.Granted || a.Waiting != i {
			t.Fatalf("waiter %d: got %+v, %v, want refused behind %d", i, a, err, i)
		}
	}
	change, err := q.Release(now, &store.Hold{Name: "n", ID: first.ID, Token: a.Token})
	if err != nil || len(change.Woken) != n {
		t.Fatalf("the release notifies %d, %v, want %d", len(change.Woken), err, n)
	}
	shown := q.State(now, "n").Entries
	if len(shown) != n {
		t.Fatalf("got %d entries in the list, want %d", len(shown), n)
	}
	for i := range all {
		if id, h, e := all[i].ID, change.Woken[i], shown[i]; h.ID != id || e.ID != id || !e.Granted || h.Token != e.Token || e.Token != a.Token+1+int64(i) {
			t.Fatalf("waiter %d, %v: notified with %+v, listed as %+v", i, id, h, e)
		}
	}
}
