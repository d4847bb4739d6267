package storetest

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

var watchNamePromises = []promise{
	{name: "who_looks_at_a_name_is_notified_of_each_who_gets_it_and_gives_it_back", names: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		seen := t.looks(t.client(), name) // nobody has used it yet
		first := seen.changed(func() { seen.h = a.take(a.lock(name)) })
		w := b.lock(name)
		b.refused(w)
		seen.changed(first.release)
		second := b.take(w)
		seen.changed(second.release)
		seen.changed(func() { a.take(a.lock(name)) })
	}},
	{name: "who_looks_at_a_name_is_notified_of_a_break", names: true, needs: inspect, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		seen := t.looks(t.client(), name)
		seen.changed(func() {
			err := a.Store.(store.Inspector).BreakHold(t.ctx, store.Break{Name: name, ID: h.ID, Token: h.Token, Reason: "why", Now: true})
			if err != nil {
				t.Fatal(err)
			}
		})
	}},
	{name: "who_has_stopped_to_look_at_a_name_is_not_notified", names: true, run: func(t *trial) {
		a, c, name := t.client(), t.client(), t.name()
		gone, seen := t.looks(c, name), t.looks(c, name)
		gone.stop()
		gone.stop()
		t.until("what was on its way has come", func() bool {
			before := gone.n.Load()
			seen.changed(func() { seen.h = a.take(a.lock(name)) })
			seen.changed(seen.h.release)
			return gone.n.Load() == before
		})
	}},
}

// A look is at a name, by one who is notified.
type look struct {
	t    *trial
	n    *atomic.Int64 // how often it was
	stop func()
	h    *held // that a change has made
}

// looks begins to look at the name.
func (t *trial) looks(c *client, name string) *look {
	t.Helper()
	l := &look{t: t, n: new(atomic.Int64)}
	stop, err := c.Store.(store.NameWatcher).WatchName(t.ctx, name, func() { l.n.Add(1) })
	if err != nil {
		t.Fatalf("WatchName: %v", err)
	}
	l.stop = stop
	t.Cleanup(stop)
	return l
}

// changed does something of which it must be notified.
func (l *look) changed(do func()) *held {
	l.t.Helper()
	before := l.n.Load()
	do()
	l.t.until("the one who looks is notified", func() bool { return l.n.Load() > before })
	return l.h
}

// watchesNames reports whether the store can notify those who look at a name.
func watchesNames(t *testing.T, s store.Store) bool {
	w, ok := s.(store.NameWatcher)
	if !ok {
		return false
	}
	stop, err := w.WatchName(t.Context(), "storetest", func() {})
	if err == nil {
		stop()
	}
	return !errors.Is(err, store.ErrUnsupported)
}
