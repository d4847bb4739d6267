package holdfast

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestSeveral_TheDeadlineIsTheEarliestAndEachHasItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		s.on(func(c *call) fate {
			if c.op == "renew" && c.name == "b" || c.name == "a" {
				return fate{back: time.Second}
			}
			return fate{}
		})
		leases := all(t, locks, "a", "b")
		a, b := leases.Lease("a"), leases.Lease("b")
		same(t, "a is the earlier one", b.Deadline().Sub(a.Deadline()), time.Second)
		same(t, "deadline", leases.Deadline(), a.Deadline())
		if a.Token() == b.Token() || leases.Token("a") != a.Token() || leases.Token("b") != b.Token() {
			t.Error("a token is not the one of its lease")
		}
		same(t, "token of another name", leases.Token("c"), 0)
		same(t, "lease of another name", leases.Lease("c"), nil)
		ctx := leases.Context(t.Context())
		same(t, "lease of the context", LeaseOf(ctx, "a"), a)
		same(t, "lease of the context", LeaseOf(ctx, "b"), b)
		same(t, "lease of the context", LeaseOf(ctx, "c"), nil)
		same(t, "lease of no context", LeaseOf(t.Context(), "a"), nil)
	})
}

// The tokens are shown once all names are held, in one call.
func TestSeveral_MinHold_IsShownWhenAllAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
		locks := locker(t, withNotifications{s}, nil)
		o := other(t, s.mem, "b", time.Hour)
		w, leases := waitsAll(t, locks.With(&Options{MinHold: 2 * time.Hour}).All(mutexes(locks, "a", "b", "c")...))
		time.Sleep(30 * time.Minute)
		same(t, "renewals", len(s.made("renew")), 0)
		same(t, "holds", stored(s.mem, "a").Entries[0].Granted, true)
		o.release()
		got := leases()
		same(t, "renewals", len(s.made("renew")), 1)
		same(t, "renewed", len(s.made("renew")[0].holds), 3)
		if left := time.Until(got.Deadline()); left < 29*time.Second {
			t.Fatalf("%v of the TTL is left, want at least 29s", left)
		}
		time.Sleep(time.Minute) // from now on it is renewed like any other
		if !got.Valid() || len(s.made("renew")) < 5 {
			t.Fatal("the set is not renewed")
		}
		release(t, got)
		for name, want := range map[string]time.Duration{"a": 90 * time.Minute, "b": 2 * time.Hour, "c": 2 * time.Hour} {
			_, err := locks.Mutex(name).TryLock(t.Context())
			ends := time.Until(heldBy(t, err).Ends) // from the grant on
			if d := ends + time.Minute - want; d < -time.Second || d > time.Second {
				t.Errorf("%s stays taken for %v after a minute, want %v from the grant", name, ends, want)
			}
		}
		w.cancel()
	})
}

func TestSeveral_MinHold_ARollBackKeepsNone(t *testing.T) {
	for _, how := range []string{"cancelled", "denied", "lost"} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			o := other(t, s.mem, "c", 2*time.Hour)
			w, _ := waitsAll(t, locks.With(&Options{MinHold: time.Hour}).All(mutexes(locks, "a", "b", "c")...))
			time.Sleep(10 * time.Minute) // many TTLs
			switch how {
			case "cancelled":
				w.cancel()
				w.failed(context.Canceled, ErrHeld)
			case "denied":
				s.on(func(c *call) fate {
					if c.name == "c" {
						return fate{fail: ErrDenied}
					}
					return fate{}
				})
				w.failed(ErrDenied)
			case "lost":
				s.mem.Break("a")
				w.failed(ErrLost)
			}
			synctest.Wait()
			same(t, "renewals", len(s.made("renew")), 0) // each would show a token
			release(t, all(t, locks, "a", "b"))
			o.release()
			s.on(nil)
		})
	}
}

// A hold that waits for other names is asked for again, not renewed. If the
// store has forgotten it, that must not recreate it.
func TestSeveral_MinHold_AForgottenHoldIsNotRecreated(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			other(t, s.mem, "b", time.Hour)
			w, _ := waitsAll(t, locks.With(&Options{MinHold: time.Hour}).All(mutexes(locks, "a", "b")...))
			s.mem.Break("a")
			broken := time.Now()
			want := 0
			if taken {
				other(t, s.mem, "a", time.Hour)
				want = 1
			}
			w.failed(ErrLost)
			if late := time.Since(broken); late > 15*time.Second {
				t.Fatalf("the loss was reported %v after the store forgot the hold, want at the next renewal", late)
			}
			synctest.Wait()
			same(t, "entries", len(stored(s.mem, "a").Entries), want)
		})
	}
}

// Operations on one claim never overlap.
func TestSeveral_MinHold_CanceledWhileItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		w, _ := waitsAll(t, locks.With(&Options{MinHold: time.Hour}).All(mutexes(locks, "a", "b")...))
		w.waiting()
		w.cancel()
		w.failed(context.Canceled)
		same(t, "releases", len(s.made("release", "withdraw")), 0) // not while the renewal is under way
		close(hang)
		synctest.Wait()
		same(t, "released", fmt.Sprint(namesOf(s.made("release", "withdraw"))), "[b a]")
		time.Sleep(time.Minute)
		same(t, "renewals", len(s.made("renew")), 1)
	})
}

func TestSeveral_MaxHold_CountsFromWhenAllAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		o := other(t, s.mem, "b", time.Hour)
		_, leases := waitsAll(t, locks.With(&Options{MaxHold: time.Minute}).All(mutexes(locks, "a", "b")...))
		time.Sleep(10 * time.Minute)
		o.release()
		got := leases()
		start := time.Now()
		<-got.Lost()
		same(t, "lost after", time.Since(start), time.Minute)
		is(t, got.Release(), ErrLost)
		one, err := locks.With(&Options{MaxHold: time.Minute}).All(locks.Mutex("c")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 1)
		is(t, one.Release(), ErrLost)
		synctest.Wait()
		empty(t, s.mem)
	})
}

// In whatever order the names are given, no two sets wait for each other.
func TestSeveral_NoRenew_CountsFromWhenAllAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		o := other(t, s.mem, "b", time.Hour)
		_, leases := waitsAll(t, locks.With(&Options{NoRenew: On}).All(mutexes(locks, "a", "b", "c")...))
		time.Sleep(10 * time.Minute)
		o.release()
		got := leases()
		start := time.Now()
		time.Sleep(10 * time.Second)
		if err := got.Lease("b").Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		<-got.Lost()
		if d := time.Since(start); d < 29*time.Second || d > 30*time.Second {
			t.Errorf("lost after %v, want the TTL, 30s", d)
		}
		for _, name := range got.Names() {
			same(t, name+" valid", got.Lease(name).Valid(), name == "b")
		}
		is(t, got.Release(), ErrLost)
	})
}
