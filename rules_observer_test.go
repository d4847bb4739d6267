package holdfast

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// If an Observer panics, no lease is lost and no name stays taken.
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
			t.Fatal("the lease was lost")
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
				t.Errorf("no event of kind %v", kind)
			}
		}
	})
}

// Wherever the observer panics, the engine continues.
func TestObserver_APanicAnywhereCostsNoLease(t *testing.T) {
	for _, at := range []EventKind{EventHandedOver, EventLost, EventRenewalFailed, EventReleased, EventFailed} {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				var panics atomic.Int32 // whoever does something is told of it
				l := opened(t, withNotifications{s}, &Options{Observer: func(e Event) {
					if e.Kind == at {
						panics.Add(1)
						panic("the observer is broken")
					}
				}})
				a, b, c := lock(t, l, "a"), lock(t, l, "b"), lock(t, l, "c")
				w := waits(t, l.Mutex("a").Lock)
				release(t, a) // handed over
				a = w.got()
				s.mem.Break("b")
				s.on(func(c *call) fate {
					if c.name == "failing" {
						return fate{fail: ErrDenied}
					}
					return fate{renew: func(i int, r *store.Renewal) {
						if c.holds[i].Name == "c" && c.n == 0 {
							r.Err = errLink
						}
					}}
				})
				_, err := l.Mutex("failing").TryLock(t.Context())
				is(t, err, ErrDenied)
				time.Sleep(15 * time.Second) // b is lost, and the renewal of c fails once
				if !a.Valid() || b.Valid() || !over(b.Lost()) || !c.Valid() {
					t.Fatal("valid, want true, false, true:", a.Valid(), b.Valid(), c.Valid())
				}
				is(t, b.Release(), ErrLost)
				release(t, c)
				if err := l.Close(); err != nil { // which gives back a
					t.Fatal("Close:", err)
				}
				is(t, a.Release(), ErrClosed)
				empty(t, s.mem)
				if panics.Load() == 0 {
					t.Error("the observer was not called")
				}
			})
		})
	}
}

// A caller that asks late, after the loss and after the release of all, also gets the loss.
func TestSeveral_LostAskedForLate(t *testing.T) {
	for what, when := range map[string]func(*LeaseSet){
		"before the release": func(*LeaseSet) {},
		"after the release":  func(all *LeaseSet) { _ = all.Release() },
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
					t.Fatal("the loss of b is not reported")
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
			t.Fatal("Release reported a loss")
		}
	})
}

func TestNew_ANilStoreOfAnyTypeIsInvalid(t *testing.T) {
	_, err := New((*memstore.Store)(nil), nil)
	is(t, err, ErrInvalid)
}
