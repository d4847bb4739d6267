package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A minimum hold keeps a name taken after a job has run. If the caller left
// before it could run, as at a shutdown, the name comes free: otherwise the job
// would be skipped everywhere.

// nobodyRan takes "a" with a minimum hold while the calls of the op take two
// seconds, there and back, and cancels after the given time. The name must be
// free once all calls under way have been answered.
func nobodyRan(t *testing.T, op string, after time.Duration, want string) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == op {
				return fate{there: time.Second, back: time.Second}
			}
			return fate{}
		})
		locks := locker(t, s, &Options{MinHold: time.Hour})
		w := waits(t, locks.Mutex("a").TryLock)
		time.Sleep(after)
		w.cancel()
		w.failed(context.Canceled)
		time.Sleep(5 * time.Second)
		same(t, "calls", s.ops(), want)
		if o := other(t, s.mem, "a", time.Minute); !o.a.Granted {
			t.Fatalf("nothing ran, but the name stays taken for %v", o.a.Until)
		}
	})
}

func TestMinHold_CallerLeftBeforeTheTokenIsShown(t *testing.T) { // B68
	nobodyRan(t, "try", 1500*time.Millisecond, "try withdraw")
}

func TestMinHold_CallerLeftBeforeTheShowingWasApplied(t *testing.T) {
	nobodyRan(t, "renew", 500*time.Millisecond, "try renew withdraw")
}

func TestMinHold_CallerLeftAfterTheShowingWasApplied(t *testing.T) {
	nobodyRan(t, "renew", 1500*time.Millisecond, "try renew withdraw")
}

// The same where the ask is called on the caller's goroutine, and Close ends it.
func TestMinHold_ClosedWhileItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{back: time.Second}
			}
			return fate{}
		})
		locks := locker(t, s, &Options{MinHold: time.Hour})
		w := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(context.Background()) })
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		w.failed(ErrClosed)
		empty(t, s.mem)
	})
}

// With several names the tokens are shown once all are held.
func TestMinHold_CallerLeftWhileSeveralAreShown(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(c *call) fate {
				if c.op == "renew" {
					return fate{there: time.Second, back: time.Second}
				}
				return fate{}
			})
			locks := locker(t, s, &Options{MinHold: time.Hour})
			w, _ := waitsAll(t, locks.All(locks.Mutex("a"), locks.Mutex("b")))
			time.Sleep(after)
			w.cancel()
			w.failed(context.Canceled)
			time.Sleep(5 * time.Second)
			empty(t, s.mem)
		})
	}
}

// The store grants, and refuses to keep the minimum: the caller gets its error, and the name is free.
func TestMinHold_AHoldThatCannotBeShownIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{fail: store.ErrDenied}
			}
			return fate{}
		})
		_, err := locker(t, s, &Options{MinHold: time.Hour}).Mutex("a").TryLock(t.Context())
		is(t, err, ErrDenied)
		time.Sleep(time.Second)
		empty(t, s.mem)
	})
}

// Once the caller had the lease, the minimum hold counts, however the lease ends.
func TestMinHold_CountsOnceTheCallerHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{MinHold: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		l, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		release(t, l)
		same(t, "free in", other(t, s.mem, "a", time.Minute).a.Until, time.Hour)
	})
}

// A caller that has the leases and does nothing under them says so.
func TestMinHold_IsNotKeptForLeasesThatWereNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{MinHold: time.Hour})
		for _, names := range [][]string{{"a"}, {"a", "b"}} {
			leases := all(t, locks, names...)
			time.Sleep(time.Minute)
			if err := leases.ReleaseUnused(); err != nil {
				t.Fatal(err)
			}
			is(t, leases.Release(), ErrReleased)
			empty(t, s.mem)
		}
		l := lock(t, locks, "a")
		time.Sleep(time.Minute)
		if err := l.ReleaseUnused(); err != nil {
			t.Fatal(err)
		}
		is(t, l.ReleaseUnused(), ErrReleased)
		empty(t, s.mem)
	})
}

// ReleaseUnused of one lease says nothing about other leases of the same hold.
func TestMinHold_IsKeptIfAnotherLeaseWasUsed(t *testing.T) {
	for _, how := range []string{"inner first", "inner last"} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, s, &Options{MinHold: time.Hour, Reentrant: On})
			outer := lock(t, locks, "a")
			inner, err := locks.All(locks.Mutex("a")).TryLock(outer.Context(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if how == "inner last" {
				release(t, outer)
			}
			if err := inner.ReleaseUnused(); err != nil {
				t.Fatal(err)
			}
			if how == "inner first" {
				release(t, outer)
			}
			if o := other(t, s.mem, "a", time.Minute); o.a.Granted {
				t.Fatalf("%s: the outer lease was used, but MinHold was not kept", how)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}
