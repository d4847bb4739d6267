package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// B27: also when it has failed. Renewals and changes never overlap: the link
// sees to that.
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
			t.Fatal("lost")
		}
		s.has(t, store.Upgradeable)
		release(t, reader)
		release(t, u.Lease)
	})
}

// An upgrade that comes while a renewal is under way is sent when that has been
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
			t.Errorf("it took %v, want what is left of the renewal, 700ms", took)
		}
		release(t, u.Lease)
	})
}

// Renewals are withheld while a change is under way. One that hangs, sent right
// before a renewal is due, leaves time for that.
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

// A caller who leaves has his answer at once; the hold is changed back until
// that is answered, and who waited gets in.
func TestUpgrade_ACancelledOneIsChangedBackUntilThatIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		rw := locks.RWMutex("a")
		reader := take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		token := u.Token()
		up := upgrading(t, u)
		next := waits(t, rw.Read().Lock)
		next.waiting()
		start := time.Now()
		down := start.Add(7 * time.Second) // longer than a call is tried
		s.on(func(c *call) fate {
			if c.op != "change" {
				return fate{}
			}
			if time.Now().Before(down) {
				return fate{back: 2 * time.Second, fail: errLink}
			}
			return fate{lose: errLink, back: 10 * time.Millisecond}
		})
		up.cancel()
		up.failed(context.Canceled, ErrHeld)
		same(t, "told", up.at, start)
		if !u.Valid() || u.Token() != token {
			t.Fatal("the lease is not what it was")
		}
		next.got()
		if next.at.Before(down) {
			t.Fatal("a reader was in before the cancel was applied")
		}
		s.on(nil)
		time.Sleep(10 * time.Second)
		s.has(t, store.Upgradeable)
		for _, c := range s.made("change")[2:] { // up, and looked again once subscribed
			if c.turn != 2 || c.weight != store.Upgradeable {
				t.Fatalf("turn %d, weight %d: want the one act back", c.turn, c.weight)
			}
		}
		release(t, next.lease)
		release(t, reader)
		upgradeNow(t, u)
		release(t, u.Lease)
	})
}

// The grant of an upgrade and its cancel cross: the hold is as it was before.
func TestUpgrade_AGrantThatNobodyWaitsForIsChangedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, s, nil).RWMutex("a")
		u := upgradeableLease(t, rw)
		token := u.Token()
		s.on(func(c *call) fate {
			if c.op == "change" && c.turn == 1 {
				return fate{back: time.Second}
			}
			return fate{}
		})
		up := upgrading(t, u)
		s.has(t, store.Full)
		up.cancel()
		up.failed(context.Canceled)
		same(t, "changes", s.turns(), "1up")
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "changes", s.turns(), "1up 2down")
		s.has(t, store.Upgradeable)
		same(t, "token", u.Token(), token)
		release(t, take(t, t.Context(), rw.Read().TryLock))
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
		release(t, reader) // the store tells
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
		release(t, reader) // nobody hears it
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

// Rule 2: the lease ends by the clock first, then the answer is read.
func TestUpgrade_AnAnswerAfterTheDeadlineRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, &Options{NoRenew: On}).RWMutex("a"))
		s.on(func(c *call) fate {
			if c.op == "change" {
				suspend(time.Minute) // while the answer is on its way; no timer runs
			}
			return fate{}
		})
		token := u.Token()
		is(t, u.Upgrade(t.Context()), ErrLost)
		if u.Valid() || u.Token() != token || u.engine().Probe().Weight() == store.Full {
			t.Fatal("an answer after the deadline was used")
		}
		is(t, u.Release(), ErrLost)
	})
}

func TestUpgrade_LostWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, withNotifications{s}, nil).RWMutex("a")
		reader := take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		up := upgrading(t, u)
		e := stored(s.mem, "a").Entries[1]
		if err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "fire"}); err != nil {
			t.Fatal(err)
		}
		up.failed(ErrLost)
		if d := time.Since(up.at); d > time.Second || u.Valid() || !strings.Contains(up.err.Error(), "fire") {
			t.Fatalf("told %v ago: %v", d, up.err)
		}
		release(t, reader)
	})
}

func TestUpgrade_AnIndeterminateOneIsTriedAgainThenChangedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, s, nil).RWMutex("a")
		u := upgradeableLease(t, rw)
		s.on(func(c *call) fate {
			if c.op == "change" && c.n < 3 {
				return fate{lose: errLink}
			}
			return fate{}
		})
		upgradeNow(t, u)
		same(t, "changes", s.turns(), "1up 1up 1up 1up")
		if st := stored(s.mem, "a"); st.Entries[0].UpgradeToken != u.Token() || st.Last != u.Token() {
			t.Fatalf("token %d, the store has %d of %d", u.Token(), st.Entries[0].UpgradeToken, st.Last)
		}
		downgrade(t, u)

		s.on(func(c *call) fate {
			if c.op == "change" && c.weight == store.Full {
				return fate{lose: errLink}
			}
			return fate{}
		})
		token, start := u.Token(), time.Now()
		err := u.Upgrade(t.Context())
		is(t, err, ErrUnavailable, errLink)
		if d := time.Since(start); d > 5*time.Second || d < 4*time.Second {
			t.Fatalf("given up after %v, want five seconds", d)
		}
		synctest.Wait() // it is told before it is changed back
		s.has(t, store.Upgradeable)
		if !u.Valid() || u.Token() != token {
			t.Fatal("the lease is not what it was")
		}
		release(t, u.Lease)
	})
}

func TestUpgrade_OfAStoreThatIsAwayIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, nil).RWMutex("a"))
		start := time.Now()
		away := start.Add(20 * time.Second)
		s.on(func(c *call) fate {
			if c.op == "change" && time.Now().Before(away) {
				return fate{lose: errLink}
			}
			return fate{}
		})
		is(t, u.Upgrade(t.Context()), ErrUnavailable, errLink)
		if d := time.Since(start); d > 5*time.Second {
			t.Fatalf("told after %v", d)
		}
		reader := take(t, t.Context(), locker(t, linkTo(t, s.mem), nil).RWMutex("a").Read().Lock)
		release(t, reader)
		time.Sleep(30 * time.Second)
		s.has(t, store.Upgradeable)
		last := s.made("change")[len(s.made("change"))-1]
		if last.sent.Before(away) || last.turn != 2 {
			t.Fatal("given up before it was answered")
		}
		upgradeNow(t, u)

		// A try that is refused waits for its way back no longer than a release.
		downgrade(t, u)
		reader = take(t, t.Context(), locker(t, linkTo(t, s.mem), nil).RWMutex("a").Read().Lock)
		s.on(func(c *call) fate {
			if c.op == "change" && c.weight == store.Upgradeable {
				return fate{fail: errLink}
			}
			return fate{}
		})
		start = time.Now()
		is(t, u.TryUpgrade(t.Context()), ErrHeld)
		same(t, "told", time.Since(start), 5*time.Second)
		s.on(nil)
		release(t, reader)
		release(t, u.Lease)
	})
}

// B17: refused at compile time.
func TestUpgrade_APlainLeaseHasNone(t *testing.T) {
	for _, l := range []any{&Lease{}, &LeaseSet{}} {
		if _, can := l.(interface{ Upgrade(context.Context) error }); can {
			t.Errorf("a %T can be upgraded", l)
		}
	}
}

// What the store refuses at once has changed nothing.
func TestUpgrade_ADefiniteRefusalIsToldAndNothingIsChangedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, nil).RWMutex("a"))
		s.on(func(c *call) fate {
			if c.op == "change" {
				return fate{fail: store.ErrDenied}
			}
			return fate{}
		})
		is(t, u.Upgrade(t.Context()), ErrDenied)
		same(t, "changes", s.turns(), "1up")
		if !u.Valid() {
			t.Fatal("lost")
		}
		release(t, u.Lease)
	})
}

func TestUpgrade_ReleaseAndCloseEndIt(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			reader := other(t, s.mem, "a", time.Hour)
			reader.release()
			reader.c.ID, reader.c.Weight = store.NewProcess().NewID(), 1
			reader.ask()
			u := upgradeableLease(t, locks.RWMutex("a"))
			up := upgrading(t, u)
			if closes {
				if err := locks.Close(); err != nil {
					t.Fatal(err)
				}
				up.failed(ErrClosed)
			} else {
				release(t, u.Lease)
				up.failed(ErrReleased)
			}
			synctest.Wait()
			same(t, "left", len(stored(s.mem, "a").Entries), 1)
			reader.release()
		})
	}
}

// B17 and the like.
func TestUpgrade_WhoWouldWaitForItselfIsTold(t *testing.T) {
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
			t.Fatalf("%v does not say what is in the way", err)
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

func TestUpgrade_WhereTheStoreCannotItIsUnsupportedAtOnce(t *testing.T) {
	s := newLink(t)
	s.desc.Lacks = map[store.Promise]string{store.PromiseUpgrade: "no way back"}
	_, err := locker(t, s, nil).RWMutex("a").Upgradeable().Lock(t.Context())
	is(t, err, ErrUnsupported)
	if !strings.Contains(err.Error(), "no way back") || len(s.made()) > 0 {
		t.Fatalf("%v after %s", err, s.ops())
	}
}

// Down is counted before it is sent: nobody may write under the lease while the
// store may have let readers in.
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

func TestDowngrade_IsRepeatedUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		u := upgradeableLease(t, locks.RWMutex("a"))
		upgradeNow(t, u)
		reader := waits(t, locks.RWMutex("a").Read().Lock)
		start := time.Now()
		s.on(func(c *call) fate {
			switch since := time.Since(start); {
			case c.op != "change":
				return fate{}
			case since > 30*time.Second:
				return fate{}
			case since > 20*time.Second: // an answer, but it changes nothing
				return fate{fail: store.ErrDenied}
			}
			return fate{fail: errLink}
		})
		err := u.Downgrade()
		is(t, err, ErrUnavailable)
		same(t, "told", time.Since(start), 5*time.Second)
		is(t, u.Downgrade(), ErrInvalid) // it is downgraded, for us
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		is(t, u.Upgrade(ctx), context.DeadlineExceeded)
		reader.got()
		if d := reader.at.Sub(start); d < 30*time.Second || d > 32*time.Second {
			t.Fatalf("the reader is in after %v", d)
		}
		s.on(nil)
		release(t, reader.lease)
		synctest.Wait()
		upgradeNow(t, u)
		same(t, "turn", s.made("change")[len(s.made("change"))-1].turn, 3)
		release(t, u.Lease)
	})
}

// A late copy of a change undoes no later one: the owner counts them.
func TestUpgrade_ALateCopyUndoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, nil).RWMutex("a"))
		upgradeNow(t, u)
		downgrade(t, u)
		upgradeNow(t, u)
		downgrade(t, u)
		same(t, "changes", s.turns(), "1up 2down 3up 4down")
		for _, c := range s.made("change")[:3] {
			if _, err := s.mem.Change(t.Context(), c.holds[0], c.turn, c.weight); err != nil {
				t.Fatal(err)
			}
			s.has(t, store.Upgradeable)
		}
		release(t, u.Lease)
	})
}

// All leases of a hold share its weight: it is changed back when none of them
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
		reader := take(t, ctx, rw.Read().Lock) // of the same hold: in nobody's way
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

// A dead upgrader blocks nobody past its expiry.
func TestUpgrade_APendingOneDiesWithItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		reader := take(t, t.Context(), locks.RWMutex("a").Read().Lock)
		u := upgradeableLease(t, locker(t, linkTo(t, s.mem), nil).RWMutex("a"))
		died := time.Now()
		u.engine().Probe().Forget()
		if _, err := s.mem.Change(t.Context(), u.engine().Probe().Hold(), 1, store.Full); err != nil {
			t.Fatal(err)
		}
		next := waits(t, locks.RWMutex("a").Read().Lock)
		next.got()
		if d := next.at.Sub(died); d > 31*time.Second || d < 29*time.Second {
			t.Fatalf("in after %v, want the TTL", d)
		}
		release(t, reader)
		release(t, next.lease)
	})
}

// Whatever crosses: in the end the store has what the engine thinks, and nobody
// is left out.
func TestUpgrade_InAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{TTL: 5 * time.Second})
		rw := locks.RWMutex("a")
		random := func(c *call) fate {
			if c.op == "release" || c.op == "withdraw" { // else what is left is no one's fault
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
							t.Errorf("upgraded, and the store has weight %d", w)
						}
						for _, e := range stored(s.mem, "a").Entries {
							if e.Granted && e.ID != u.engine().Probe().Hold().ID {
								t.Error("another is in beside an upgraded hold")
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
		time.Sleep(time.Minute) // what was left by a fault has died
		release(t, take(t, t.Context(), rw.Write().TryLock))
	})
}

// Also where the store is in this process, and a test says that it is away.
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
		same(t, "told", time.Since(start), 5*time.Second)
		mem.Fail(nil)
		reader := take(t, t.Context(), locks.RWMutex("a").Read().Lock)
		release(t, reader)
		release(t, u.Lease)
		empty(t, mem)
	})
}

// A forgetful store loses an upgrade but not the hold, as a replica does that is
// promoted before it has heard of the upgrade.
type forgetful struct {
	store.Store
	forgot atomic.Bool
}

func (s *forgetful) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	answers := s.Store.Renew(ctx, holds)
	for i := range answers {
		if s.forgot.Load() && answers[i].Err == nil {
			answers[i].Weight, answers[i].Want = store.Upgradeable, store.Upgradeable
		}
	}
	return answers
}

func TestUpgrade_OneThatTheStoreForgotIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &forgetful{Store: memstore.New()}
		locks := locker(t, s, &Options{TTL: 3 * time.Second})
		u := upgradeableLease(t, locks.RWMutex("a"))
		other := upgradeableLease(t, locks.RWMutex("b")) // never upgraded
		if err := u.TryUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !u.Valid() || !other.Valid() {
			t.Fatal("lost, though nothing was forgotten")
		}
		if err := errors.Join(u.Downgrade(), u.TryUpgrade(t.Context())); err != nil {
			t.Fatal(err)
		}
		s.forgot.Store(true)
		time.Sleep(time.Second + 10*time.Millisecond) // one renewal
		if u.Valid() || !other.Valid() {
			t.Errorf("the forgotten one is valid: %v; the other one: %v", u.Valid(), other.Valid())
		}
		is(t, u.Release(), ErrLost)
		release(t, other.Lease)
	})
}
