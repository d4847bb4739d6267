package holdfast

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// An Observer that panics costs no lease, and leaves no name taken.
func TestObserver_APanicCostsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var mu sync.Mutex
		seen := map[EventKind]int{}
		l := opened(t, s, &Options{Observer: func(e Event) {
			mu.Lock()
			seen[e.Kind]++
			mu.Unlock()
			panic("the observer is broken")
		}})
		lease := lock(t, l, "a")
		time.Sleep(time.Minute)
		if !lease.Valid() {
			t.Fatal("lost")
		}
		_, err := l.Mutex("a").TryLock(lease.Context(t.Context()))
		is(t, err, ErrDeadlock)
		_, err = l.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		release(t, lease)
		empty(t, s.mem)
		mu.Lock()
		defer mu.Unlock()
		for _, kind := range []EventKind{EventGranted, EventRenewed, EventRefused, EventReleased} {
			if seen[kind] == 0 {
				t.Errorf("no event: %v", kind)
			}
		}
	})
}

// Who asks late, after the loss and after the release of all, is told as well.
func TestSeveral_LostAskedForLate(t *testing.T) {
	for what, when := range map[string]func(*Leases){
		"before the release": func(*Leases) {},
		"after the release":  func(all *Leases) { _ = all.Release() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				l := opened(t, s, nil)
				all, err := l.All(l.Mutex("a"), l.Mutex("b"), l.Mutex("c")).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.mem.Break("b")
				time.Sleep(11 * time.Second)
				_ = all.Lease("a").Release()
				when(all)
				if !over(all.Lost()) {
					t.Fatal("it is not told that b was lost")
				}
				_ = all.Release()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, newLink(t), nil)
		all, err := l.All(l.Mutex("a"), l.Mutex("b")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		early := all.Lost()
		if err := all.Release(); err != nil {
			t.Fatal(err)
		}
		if over(early) || over(all.Lost()) {
			t.Fatal("Release closes it")
		}
	})
}

func TestNew_ANilStoreOfAnyTypeIsInvalid(t *testing.T) {
	_, err := New((*memstore.Store)(nil), nil)
	is(t, err, ErrInvalid)
}
