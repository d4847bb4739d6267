package engine

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// remote is a store that is not in this process.
type remote struct{ *memstore.Store }

func (s remote) Describe() store.Description {
	d := s.Store.Describe()
	d.InProcess = false
	return d
}

// An outage that one claim meets also ends the waits of other claims without an
// answer. A claim that the store has just answered continues: the outage does not end
// its next ask, even an hour later.
func TestOutage_EndsNoWaitThatTheStoreHasAnsweredSince(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := Open(remote{memstore.New()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := &l.e.queues
	w := l.With(Options{}).Read("a")
	var inside [2]*waiter
	for i := range inside {
		if inside[i], _, err = g.enter(ctx, &w, 0); err != nil || inside[i] == nil {
			t.Fatal(err)
		}
	}
	silent, p := inside[0], inside[1]
	g.leave(silent, false, store.ErrUnavailable)
	if !ended(p.outage) {
		t.Fatal("an outage does not end another claim that got no answer")
	}
	g.answered(p, &refused{when: time.Now()}, true, make(chan store.Notification, 1), "")
	if ended(p.outage) {
		t.Error("its next ask ends with the outage, although it was answered")
	}
	g.leave(p, false, nil)
}
