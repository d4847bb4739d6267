package storetest

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Lockable is a store whose sessions are rows that can be locked, with an ID each.
type Lockable[ID comparable] struct {
	// Open opens a store object on the same backing each time.
	Open func(t *testing.T) store.Store

	// Sessions returns the sessions of a store object.
	Sessions func(store.Store) []ID

	// Lock locks the row of one session until the test ends, as an open transaction does.
	Lock func(t *testing.T, id ID)
}

// LockedSession locks the sessions of a process, and then those that it has begun since. The holds of the
// process must still be renewed, its positions must stay, and another process must notice nothing.
func LockedSession[ID comparable](t *testing.T, c Lockable[ID]) {
	t.Helper()
	const ttl = 90 * time.Second // a machine may stall for half a minute
	locker := func(s store.Store) *holdfast.Locker {
		l, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // a locked session cannot be ended
		return l
	}
	taken := func(l *holdfast.Locker, name string) *holdfast.Lease {
		lease, err := lock(t.Context(), l, name)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	s := c.Open(t)
	near, far := locker(s), locker(c.Open(t))
	var leases []*holdfast.Lease
	for i := range 20 {
		leases = append(leases, taken(near, fmt.Sprint(i)))
	}
	theirs := taken(far, "theirs")
	got := make(chan *holdfast.Lease, 1)
	go func() {
		lease, _ := lock(t.Context(), near, "theirs")
		got <- lease
	}()
	for deadline := time.Now().Add(patience); len(MustList(t, s.(store.Inspector), "theirs").Entries) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no claim waits")
		}
	}
	locked := map[ID]bool{}
	for times := 0; times < 2; {
		before := len(locked)
		for _, id := range c.Sessions(s) {
			if !locked[id] {
				locked[id] = true
				c.Lock(t, id)
			}
		}
		if len(locked) > before { // some stores have a session only for renewed holds
			times++
		}
		at := time.Now()
		for i := 0; i < len(leases); {
			if lease := leases[i]; !lease.Valid() {
				t.Fatalf("%q was lost %v after its session was locked", lease.Name(), time.Since(at))
			} else if lease.Deadline().After(at.Add(ttl)) {
				i++ // it was renewed since
				continue
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !theirs.Valid() {
			t.Fatal("a lease of another process was lost")
		}
	}
	if all := c.Sessions(s); !slices.ContainsFunc(all, func(id ID) bool { return !locked[id] }) {
		t.Errorf("all sessions %v are locked, so no renewal is possible", all)
	}
	if err := theirs.Release(); err != nil {
		t.Error(err)
	}
	select {
	case lease := <-got:
		if lease == nil || !lease.Valid() {
			t.Error("the waiter is not granted a name that is free")
		}
	case <-time.After(patience):
		t.Fatal("the waiter is not granted a name that is free")
	}
	for _, lease := range leases {
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}
