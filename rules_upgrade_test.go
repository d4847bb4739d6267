package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// B27: also after a failure. Renewals and changes never overlap: the link
// checks that.
func TestUpgrade_B27_TheHoldIsRenewedMeanwhileAndAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate { return fate{there: 50 * time.Millisecond, back: 50 * time.Millisecond} })
		locks := locker(t, withNotifications{s}, &Options{TTL: 3 * time.Second})
		u := upgradeableLease(t, locks.RWMutex("a"))
		reader := take(t, t.Context(), locks.RWMutex("a").Read().Lock)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is(t, u.Upgrade(ctx), context.DeadlineExceeded, ErrHeld)
		time.Sleep(time.Minute)
		if !u.Valid() || !reader.Valid() {
			t.Fatal("a lease was lost")
		}
		s.has(t, store.Upgradeable)
		release(t, reader)
		release(t, u.Lease)
	})
}

// An upgrade that comes while a renewal is under way is sent once that is
// answered.
func TestUpgrade_ARenewalAndAChangeDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{TTL: 3 * time.Second})
		u := upgradeableLease(t, locks.RWMutex("a"))
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{there: 500 * time.Millisecond, back: 400 * time.Millisecond} // less than its bound, a second
			}
			return fate{}
		})
		time.Sleep(1200 * time.Millisecond) // renewed after a second
		start := time.Now()
		if err := u.TryUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 700*time.Millisecond {
			t.Errorf("took %v, want what is left of the renewal, 700ms", took)
		}
		release(t, u.Lease)
	})
}

// While a change is under way no renewal is sent. A change that hangs, sent just
// before a renewal is due, leaves time for the renewal.
func TestUpgrade_AChangeThatHangsLeavesTimeForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, &Options{TTL: 10 * time.Second, RenewEvery: 5 * time.Second}).RWMutex("a"))
		s.on(func(c *call) fate {
			if c.op == "change" && c.n == 0 {
				return fate{there: time.Hour} // as on a connection that is dead
			}
			return fate{}
		})
		time.Sleep(4990 * time.Millisecond)
		upgradeNow(t, u)
		same(t, "operations", s.ops(), "try change renew change")
		release(t, u.Lease)
	})
}

// Rule 5: a notification causes a poll, whatever it says.
func TestUpgrade_ANotificationGrantsNothingAndCausesAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, withNotifications{s}, nil).RWMutex("a")
		reader := take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		up := upgrading(t, u)
		changes := s.turns()
		token := u.Token()
		s.tell(store.Notification{Name: "a", ID: u.engine().Probe().Hold().ID, Token: token + 1000, N: 1})
		up.waiting()
		same(t, "token", u.Token(), token)
		same(t, "changes", s.turns(), changes+" 1up")
		now := time.Now()
		release(t, reader) // the store notifies
		up.got()
		same(t, "granted", up.at, now)
		same(t, "changes", s.turns(), changes+" 1up 1up")
		release(t, u.Lease)
	})
}

// Rule 5: subscribe, then poll.
func TestUpgrade_PollsOnceItIsSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "watch" {
				return fate{there: time.Second}
			}
			return fate{}
		})
		rw := locker(t, withNotifications{s}, nil).RWMutex("a")
		reader := take(t, t.Context(), rw.Read().TryLock)
		u := upgradeableLease(t, rw)
		up := upgrading(t, u)
		start := time.Now()
		time.Sleep(500 * time.Millisecond)
		release(t, reader) // nobody is subscribed
		up.got()
		same(t, "granted", up.at.Sub(start), time.Second)
		release(t, u.Lease)
	})
}

func TestUpgrade_WithoutANotificationItPollsAtAThirdOfThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.onNotification(drop)
		rw := locker(t, withNotifications{s}, nil).RWMutex("a")
		reader := take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		up := upgrading(t, u)
		start := time.Now()
		time.Sleep(time.Second)
		release(t, reader)
		up.got()
		same(t, "granted", up.at.Sub(start).Round(time.Millisecond), (10 * time.Second / 3).Round(time.Millisecond))
		release(t, u.Lease)
	})
}

// B17: refused at compile time.
func TestUpgrade_APlainLeaseHasNone(t *testing.T) {
	for _, l := range []any{&Lease{}, &LeaseSet{}} {
		if _, can := l.(interface{ Upgrade(context.Context) error }); can {
			t.Errorf("a %T can be upgraded, want it not to", l)
		}
	}
}

// B17 and similar cases.
func TestUpgrade_AWaitForItselfIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, withNotifications{s})
		rw := locks.RWMutex("a")
		r := take(t, t.Context(), rw.Read().Lock)
		_, err := rw.Upgradeable().Lock(r.Context(t.Context()))
		is(t, err, ErrDeadlock)
		_, err = rw.Upgradeable().TryLock(r.Context(t.Context()))
		is(t, err, ErrDeadlock)
		u := upgradeableLease(t, rw)
		calls := len(s.made())
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = u.Upgrade(r.Context(second))
		is(t, err, ErrDeadlock)
		if !strings.Contains(err.Error(), "a read lock of the same name") {
			t.Fatalf("%v does not say what blocks it", err)
		}
		_, err = rw.Write().Lock(u.Context(t.Context()))
		is(t, err, ErrDeadlock)
		if !strings.Contains(err.Error(), "upgrade that") {
			t.Fatalf("%v does not say what to do", err)
		}
		same(t, "calls", len(s.made()), calls)
		release(t, r)
		w := take(t, u.Context(t.Context()), rw.Read().Lock)
		release(t, u.Lease)
		release(t, w)
		m := take(t, t.Context(), rw.Write().Lock)
		_, err = rw.Upgradeable().Lock(m.Context(t.Context())) // a write lock cannot be downgraded
		is(t, err, ErrDeadlock)
		release(t, m)
	})
}

func TestUpgrade_OnAStoreWithoutThemIsUnsupportedAtOnce(t *testing.T) {
	s := newLink(t)
	s.desc.Lacks = map[store.Promise]string{store.PromiseUpgrade: "no way back"}
	_, err := locker(t, s, nil).RWMutex("a").Upgradeable().Lock(t.Context())
	is(t, err, ErrUnsupported)
	if !strings.Contains(err.Error(), "no way back") || len(s.made()) > 0 {
		t.Fatalf("got %v after the calls %s, want the reason and no calls", err, s.ops())
	}
}

// A downgrade counts before it is sent: no caller may write under the lease while
// the store may have admitted readers.
func TestDowngrade_CountsBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, s)
		u := upgradeableLease(t, locks.RWMutex("a"))
		upgradeNow(t, u)
		ctx := u.Context(t.Context())
		release(t, take(t, ctx, locks.RWMutex("a").Write().Lock))
		var during error
		s.on(func(c *call) fate {
			if c.op == "change" {
				_, during = locks.RWMutex("a").Write().Lock(ctx)
			}
			return fate{}
		})
		downgrade(t, u)
		is(t, during, ErrDeadlock)
		release(t, u.Lease)
	})
}

// All leases of a hold share its weight. It is changed back once none of them
// needs it.
func TestUpgrade_Reentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, s)
		rw := locks.RWMutex("a")
		outer := upgradeableLease(t, rw)
		ctx := outer.Context(t.Context())
		inner, err := rw.Upgradeable().Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		reader := take(t, ctx, rw.Read().Lock) // of the same hold: it blocks nobody
		upgradeNow(t, inner)
		same(t, "token", outer.Token(), inner.Token())
		_, err = rw.Write().Lock(ctx) // outer is not upgraded
		is(t, err, ErrDeadlock)
		upgradeNow(t, outer)
		same(t, "changes", s.turns(), "1up")
		writer := take(t, ctx, rw.Write().Lock)
		release(t, writer)
		writer = take(t, ctx, rw.Write().Lock)
		downgrade(t, inner)
		downgrade(t, outer)
		same(t, "changes", s.turns(), "1up")
		s.has(t, store.Full)
		release(t, writer) // the last that needs it
		same(t, "changes", s.turns(), "1up 2down")
		s.has(t, store.Upgradeable)
		upgradeNow(t, inner)
		release(t, inner.Lease)
		same(t, "changes", s.turns(), "1up 2down 3up 4down")
		s.has(t, store.Upgradeable)
		release(t, reader)
		release(t, outer.Lease)
		empty(t, s.mem)
	})
}

// Whatever calls cross, in the end the store has the state that the engine
// assumes, and every claim is served.
func TestUpgrade_InAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{TTL: 5 * time.Second})
		rw := locks.RWMutex("a")
		random := func(c *call) fate {
			if c.op == "release" || c.op == "withdraw" { // otherwise leftovers would be no defect
				return fate{}
			}
			f := fate{there: time.Duration(rand.N(20)) * time.Millisecond, back: time.Duration(rand.N(20)) * time.Millisecond}
			switch rand.N(12) {
			case 0:
				f.lose = errLink
			case 1:
				f.fail = errLink
			}
			return f
		}
		s.on(random)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(200))*time.Millisecond)
					if l, err := rw.Read().Lock(ctx); err == nil {
						time.Sleep(time.Duration(rand.N(30)) * time.Millisecond)
						if err := l.Release(); err != nil {
							t.Error(err)
						}
					}
					cancel()
				}
			})
		}
		all.Go(func() {
			for range 30 {
				u, err := rw.Upgradeable().Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(80))*time.Millisecond)
					err := u.Upgrade(ctx)
					cancel()
					if err == nil {
						if w, want := weighs(s.mem, "a"); w != store.Full || want != store.Full || len(stored(s.mem, "a").Entries) == 0 {
							t.Errorf("the lease was upgraded, but the store has weight %d", w)
						}
						for _, e := range stored(s.mem, "a").Entries {
							if e.Granted && e.ID != u.engine().Probe().Hold().ID {
								t.Error("another claim was granted together with an upgraded hold")
							}
						}
						if err := u.Downgrade(); err != nil && !errors.Is(err, ErrUnavailable) {
							t.Error(err)
						}
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				if err := u.Release(); err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
		s.on(nil)
		time.Sleep(time.Minute) // what a fault left behind has expired
		release(t, take(t, t.Context(), rw.Write().TryLock))
	})
}

// The same on a store in this process that a test makes unavailable.
func TestDowngrade_InMemoryIsBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := locker(t, mem, nil)
		u := upgradeableLease(t, locks.RWMutex("a"))
		upgradeNow(t, u)
		mem.Fail(func(op, _ string) error {
			if op == "change" {
				return errLink
			}
			return nil
		})
		start := time.Now()
		is(t, u.Downgrade(), ErrUnavailable)
		same(t, "returned after", time.Since(start), 5*time.Second)
		mem.Fail(nil)
		reader := take(t, t.Context(), locks.RWMutex("a").Read().Lock)
		release(t, reader)
		release(t, u.Lease)
		empty(t, mem)
	})
}
