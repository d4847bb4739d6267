package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A caller that leaves gets its error at once. The hold is changed back until
// that is answered, and then the waiter is granted.
func TestUpgrade_ACanceledOneIsChangedBackUntilAnswered(t *testing.T) {
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
		same(t, "returned at", up.at, start)
		if !u.Valid() || u.Token() != token {
			t.Fatal("the canceled upgrade changed the lease")
		}
		next.got()
		if next.at.Before(down) {
			t.Fatal("a reader was granted before the change back was applied")
		}
		s.on(nil)
		time.Sleep(10 * time.Second)
		s.has(t, store.Upgradeable)
		for _, c := range s.made("change")[2:] { // up, and again once subscribed
			if c.turn != 2 || c.weight != store.Upgradeable {
				t.Fatalf("got turn %d, weight %d, want the change back alone, turn 2", c.turn, c.weight)
			}
		}
		release(t, next.lease)
		release(t, reader)
		upgradeNow(t, u)
		release(t, u.Lease)
	})
}

// The grant of an upgrade and its cancel cross: the hold is as it was before.
func TestUpgrade_AnAbandonedGrantIsChangedBack(t *testing.T) {
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

// Rule 2: first the lease ends by the clock, then the answer is read.
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
			t.Fatal("an answer after the deadline changed the lease")
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
			t.Fatalf("reported %v ago, want at most 1s: %v", d, up.err)
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
			t.Fatalf("got token %d, the store has %d, with %d as the last", u.Token(), st.Entries[0].UpgradeToken, st.Last)
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
			t.Fatalf("Upgrade gave up after %v, want five seconds", d)
		}
		synctest.Wait() // the error is returned before the weight is changed back
		s.has(t, store.Upgradeable)
		if !u.Valid() || u.Token() != token {
			t.Fatal("the failed upgrade changed the lease")
		}
		release(t, u.Lease)
	})
}

func TestUpgrade_AnOutageOfTheStoreIsReported(t *testing.T) {
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
			t.Fatalf("returned after %v, want at most 5s", d)
		}
		reader := take(t, t.Context(), locker(t, linkTo(t, s.mem), nil).RWMutex("a").Read().Lock)
		release(t, reader)
		time.Sleep(30 * time.Second)
		s.has(t, store.Upgradeable)
		last := s.made("change")[len(s.made("change"))-1]
		if last.sent.Before(away) || last.turn != 2 {
			t.Fatal("it gave up before the change back was answered")
		}
		upgradeNow(t, u)

		// A refused try waits for its cancel no longer than a release would.
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
		same(t, "returned after", time.Since(start), 5*time.Second)
		s.on(nil)
		release(t, reader)
		release(t, u.Lease)
	})
}

// A change that the store refuses at once has changed nothing.
func TestUpgrade_ADefiniteRefusalIsReturnedUnchanged(t *testing.T) {
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
			t.Fatal("the lease was lost")
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
		same(t, "returned after", time.Since(start), 5*time.Second)
		is(t, u.Downgrade(), ErrInvalid) // for the engine it is downgraded
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		is(t, u.Upgrade(ctx), context.DeadlineExceeded)
		reader.got()
		if d := reader.at.Sub(start); d < 30*time.Second || d > 32*time.Second {
			t.Fatalf("the reader was granted after %v, want about 30s", d)
		}
		s.on(nil)
		release(t, reader.lease)
		synctest.Wait()
		upgradeNow(t, u)
		same(t, "turn", s.made("change")[len(s.made("change"))-1].turn, 3)
		release(t, u.Lease)
	})
}

// A late copy of a change does not undo a later one: the owner counts changes.
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
			t.Fatalf("granted after %v, want the TTL, 30s", d)
		}
		release(t, reader)
		release(t, next.lease)
	})
}

// A store forgets an upgrade but not the hold, like a replica that is promoted
// before it has received the upgrade.
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

func TestUpgrade_AForgottenHoldIsALoss(t *testing.T) {
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
			t.Fatal("a lease was lost, although the store forgot none")
		}
		if err := errors.Join(u.Downgrade(), u.TryUpgrade(t.Context())); err != nil {
			t.Fatal(err)
		}
		s.forgot.Store(true)
		time.Sleep(time.Second + 10*time.Millisecond) // one renewal
		if u.Valid() || !other.Valid() {
			t.Errorf("the lease whose upgrade was forgotten is valid: %v, want false; the other: %v, want true", u.Valid(), other.Valid())
		}
		is(t, u.Release(), ErrLost)
		release(t, other.Lease)
	})
}
