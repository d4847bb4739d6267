package storetest

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// Claims on watched names set Announce: a store may skip other changes.
var watchNamePromises = []promise{
	{name: "a_watcher_is_notified_of_each_grant_and_release", names: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		seen := t.looks(t.client(), name) // it is unused
		first := seen.changed(func() { seen.h = a.take(a.lock(name, announced)) })
		seen.changed(first.release) // while no one waits
		first = seen.changed(func() { seen.h = a.take(a.lock(name, announced)) })
		w := b.lock(name, announced)
		b.refused(w)
		seen.changed(first.release)
		second := b.take(w)
		third := b.lock(name, announced)
		b.refused(third)
		seen.changed(second.release)
		seen.changed(b.take(third).release)
		seen.changed(func() { a.take(a.lock(name, announced, try)) })
	}},
	{name: "a_watcher_is_notified_when_many_holds_are_released", names: true, run: func(t *trial) {
		a := t.client()
		one, two := a.take(a.lock(t.name(), announced)), a.take(a.lock(t.name(), announced))
		first, second := t.looks(t.client(), one.Name), t.looks(t.client(), two.Name)
		first.changed(func() { second.changed(func() { a.releaseAll(one, two) }) })
	}},
	{name: "a_watcher_is_notified_of_a_grant_after_an_expiry", names: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.lock(name, ttl(t.short))) // this claim is not announced
		w := b.lock(name, announced)
		t.soonEnough(!b.ask(w).Granted) // otherwise no grant follows
		seen := t.looks(t.client(), name)
		seen.changed(func() { t.until("the next is granted", func() bool { return b.ask(w).Granted }) })
	}},
	{name: "a_watcher_is_notified_of_a_withdrawn_hold", names: true, run: func(t *trial) {
		a, name := t.client(), t.name()
		claim := a.lock(name, announced)
		a.take(claim)
		seen := t.looks(t.client(), name)
		seen.changed(func() { a.withdraw(claim) })
	}},
	{name: "a_watcher_is_notified_of_another_owner", names: true, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name, announced))
		h.renewed() // like a hold that lasts for a while
		seen := t.looks(t.client(), name)
		h.Owner = store.Owner{Host: "here", PID: 4711, Program: "storetest", Note: "another note"}.Stored()
		seen.changed(h.renewed)
	}},
	{name: "a_watcher_is_notified_of_another_id", names: true, needs: []store.Promise{store.PromiseDetach}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, announced))
		seen := t.looks(t.client(), name)
		h = seen.changed(func() { seen.h = a.detach(h) })
		h = seen.changed(func() { seen.h = b.adopt(h) })
		seen.changed(h.release)
	}},
	{name: "a_watcher_is_notified_of_a_release_with_a_minimum_hold", names: true, needs: []store.Promise{store.PromiseMinHold}, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name, announced, withMinHold(t.long)))
		h.renewed()
		seen := t.looks(t.client(), name)
		seen.changed(h.release)
	}},
	{name: "a_watcher_is_notified_of_a_break", names: true, needs: inspect, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name)) // the operator does not know whether it is watched
		seen := t.looks(t.client(), name)
		seen.changed(func() {
			err := a.Store.(store.Inspector).BreakHold(t.ctx, store.Break{Name: name, ID: h.ID, Token: h.Token, Reason: "why", Now: true})
			if err != nil {
				t.Fatal(err)
			}
		})
	}},
	{name: "a_watcher_of_many_names_is_notified_of_each", names: true, run: func(t *trial) {
		a, c := t.client(), t.client()
		gone := t.looks(c, t.name())
		var all []*look
		for range 5 {
			name := t.name()
			seen := t.looks(c, name)
			seen.changed(func() { seen.h = a.take(a.lock(name, announced)) })
			all = append(all, seen)
		}
		gone.stop()
		for _, seen := range all {
			seen.changed(seen.h.release)
		}
		for _, seen := range all {
			seen.stop()
		}
		again := t.looks(c, all[0].h.Name)
		again.changed(func() { again.h = a.take(a.lock(all[0].h.Name, announced)) })
	}},
	{name: "a_watcher_that_has_stopped_is_not_notified", names: true, run: func(t *trial) {
		a, c, name := t.client(), t.client(), t.name()
		gone, seen := t.looks(c, name), t.looks(c, name)
		gone.stop()
		gone.stop()
		t.until("the late notification has arrived", func() bool {
			before := gone.n.Load()
			seen.changed(func() { seen.h = a.take(a.lock(name, announced)) })
			seen.changed(seen.h.release)
			return gone.n.Load() == before
		})
	}},
}

// A look is a watcher of a name.
type look struct {
	t    *trial
	n    *atomic.Int64 // how often it was notified
	stop func()
	h    *held // the hold that a change has made
}

// looks begins to watch the name.
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

// changed calls do, of which the watcher must be notified.
func (l *look) changed(do func()) *held {
	l.t.Helper()
	before := l.n.Load()
	do()
	l.t.until("the watcher is notified", func() bool { return l.n.Load() > before })
	return l.h
}

// watchesNames reports whether the store can notify watchers of a name.
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
