package holdfast

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// byHandLease is a lease for six seconds that does not renew itself.
func byHandLease(t testing.TB, s store.Store) *Lease {
	t.Helper()
	return lock(t, locker(t, s, &Options{TTL: 6 * time.Second, NoRenew: On}), "a")
}

func renew(t testing.TB, l *Lease, ttl time.Duration) {
	t.Helper()
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Fatal("Renew:", err)
	}
}

// B60.
func TestRenewByHand_WithoutItTheLeaseIsLostAtItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := byHandLease(t, s)
		ctx := l.Context(t.Context())
		<-l.Lost()
		same(t, "lost", time.Now(), ends(start, 6*time.Second))
		is(t, context.Cause(ctx), ErrLost)
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try")
	})
}

// B71: a renewal counts from when it was sent; it can be repeated, and be for longer than before.
func TestRenewByHand_LastsFromItsSendingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		s.on(func(*call) fate { return fate{there: 300 * time.Millisecond, back: 200 * time.Millisecond} })
		for _, ttl := range []time.Duration{6 * time.Second, 6 * time.Second, 20 * time.Second, time.Minute} {
			time.Sleep(4 * time.Second)
			before := time.Now()
			renew(t, l, ttl)
			same(t, "answered", time.Since(before), 500*time.Millisecond)
			same(t, "deadline", l.Deadline(), ends(before, ttl))
			same(t, "expiry in the store", stored(s.mem, "a").Entries[0].Expires, ttl-200*time.Millisecond)
		}
		last := time.Now()
		<-l.Lost()
		same(t, "lost", time.Now(), ends(last.Add(-500*time.Millisecond), time.Minute))
		same(t, "renewals", len(s.made("renew")), 4)
	})
}

// B71: a shorter renewal moves our own deadline at once, before the answer; the
// store's expiry is not moved back.
func TestRenewByHand_AShorterOneCutsTheDeadlineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		hang := make(chan struct{})
		s.on(func(*call) fate { return fate{hang: hang} })
		start := time.Now()
		var err error
		var call sync.WaitGroup
		call.Go(func() { err = l.Renew(t.Context(), time.Second) })
		synctest.Wait()
		same(t, "deadline", l.Deadline(), ends(start, time.Second))
		same(t, "expiry in the store", stored(s.mem, "a").Entries[0].Expires, 6*time.Second)
		<-l.Lost()
		same(t, "lost", time.Now(), ends(start, time.Second))
		call.Wait()
		same(t, "returned at", time.Now(), ends(start, time.Second))
		is(t, err, ErrLost)
		close(hang) // the answer comes too late
		synctest.Wait()
		if l.Valid() {
			t.Fatal("an answer after the deadline made the lease valid again")
		}
	})
}

// A renewal that was sent before does not undo the shorter deadline.
func TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, &Options{TTL: 30 * time.Second}), "a")
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.n == 0 {
				return fate{back: 2 * time.Second}
			}
			return fate{hang: hang}
		})
		time.Sleep(11 * time.Second) // its own renewal is under way
		cut := time.Now()
		var err error
		var call sync.WaitGroup
		call.Go(func() { err = l.Renew(t.Context(), 5*time.Second) })
		time.Sleep(2 * time.Second) // it was answered, and that of the call is under way
		same(t, "renewals", len(s.made("renew")), 2)
		same(t, "for", s.made("renew")[1].holds[0].TTL, 5*time.Second)
		same(t, "deadline", l.Deadline(), ends(cut, 5*time.Second))
		call.Wait()
		same(t, "lost", time.Now(), ends(cut, 5*time.Second))
		is(t, err, ErrLost)
		close(hang)
	})
}

// B72, and other errors that are returned before anything is sent.
func TestRenewByHand_AnEndedLeaseDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.desc.MinTTL, s.desc.MaxTTL = time.Second, time.Hour
		locks := locker(t, s, &Options{TTL: 6 * time.Second, NoRenew: On})
		l := lock(t, locks, "a")
		calls := len(s.made())
		for _, ttl := range []time.Duration{-1, 0, time.Second - 1, time.Hour + 1} {
			is(t, l.Renew(t.Context(), ttl), ErrInvalid)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err := l.Renew(ended, time.Second)
		is(t, err, context.Canceled)
		isNot(t, err, ErrUnavailable)
		same(t, "deadline", l.Deadline(), ends(time.Now(), 6*time.Second))
		suspend(time.Minute) // the timer is late
		late := time.Now()
		is(t, l.Renew(t.Context(), time.Minute), ErrLost)
		is(t, l.Renew(t.Context(), time.Minute), ErrLost)
		same(t, "returned after", time.Since(late), 0)
		if l.Valid() {
			t.Fatal("the lost lease is valid again")
		}
		same(t, "calls", len(s.made()), calls)

		l = lock(t, locks, "b")
		release(t, l)
		calls = len(s.made())
		is(t, l.Renew(t.Context(), time.Minute), ErrReleased)
		time.Sleep(time.Minute) // B75
		same(t, "calls", len(s.made()), calls)
	})
}

// B73.
func TestRenewByHand_AForeignHoldIsLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		e := stored(s.mem, "a").Entries[0]
		if err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "fire"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := l.Renew(t.Context(), 6*time.Second)
		is(t, err, ErrLost)
		var broken *store.LostError
		if !errors.As(err, &broken) || broken.Reason != "fire" {
			t.Fatalf("%v does not give the reason of the break", err)
		}
		same(t, "returned after", time.Since(start), 0)
		if l.Valid() || !over(l.Lost()) {
			t.Fatal("the lease is valid, or its loss is not reported")
		}
		same(t, "renewals", len(s.made("renew")), 1)
	})
}

// B74, B76: after an indeterminate outcome the renewal is tried again; it is no loss.
func TestRenewByHand_AnIndeterminateOneIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		time.Sleep(2 * time.Second)
		up := time.Now().Add(time.Second)
		s.renewalsFail(up)
		renew(t, l, 6*time.Second)
		tries := s.made("renew")
		last := tries[len(tries)-1]
		if len(tries) < 4 || last.sent.Before(up) {
			t.Fatalf("%d tries, the last %v after the store came back; want at least 4, the last after it", len(tries), last.sent.Sub(up))
		}
		same(t, "deadline", l.Deadline(), ends(last.sent, 6*time.Second))
		time.Sleep(5 * time.Second)
		same(t, "renewals", len(s.made("renew")), len(tries))
	})
}

// B74: the store's own error comes back.
func TestRenewByHand_ItsContextBoundsTheTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		s.renewalsFail(time.Now().Add(time.Hour))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Renew(ctx, 20*time.Second)
		is(t, err, context.DeadlineExceeded, ErrUnavailable, errLink)
		isNot(t, err, ErrLost, ErrHeld)
		same(t, "returned after", time.Since(start), time.Second)
		same(t, "deadline", l.Deadline(), ends(start, 6*time.Second))
		tries := len(s.made("renew"))
		time.Sleep(4 * time.Second)
		same(t, "renewals", len(s.made("renew")), tries)

		err = l.Renew(t.Context(), 20*time.Second)
		is(t, err, ErrLost, ErrUnavailable, errLink)
		same(t, "lost", time.Now(), ends(start, 6*time.Second))
	})
}

// A caller whose context ends returns at once, although the store hangs.
func TestRenewByHand_ACallerThatLeavesDoesNotWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, s)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{back: 3 * time.Second}
			}
			return fate{}
		})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		is(t, l.Renew(ctx, 20*time.Second), context.DeadlineExceeded, ErrUnavailable)
		same(t, "returned after", time.Since(start), time.Second)
		release(t, l) // waits for the renewal under way: the link checks that
	})
}

// Rule 5.
func TestRenewByHand_ANotificationGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{NoRenew: On})
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(3 * time.Second)
		calls := len(s.made("ask"))
		o.release()
		now := time.Now()
		l := w.got()
		same(t, "asks after the notification", len(s.made("ask"))-calls, 1)
		same(t, "deadline", l.Deadline(), ends(now, 30*time.Second))
		same(t, "expiry in the store", stored(s.mem, "a").Entries[0].Expires, 30*time.Second)
		time.Sleep(29 * time.Second)
		same(t, "renewals", len(s.made("renew")), 0)
		release(t, l)
	})
}

// A minimum hold counts only once its token was shown, so the hold is renewed
// once before the caller has the lease.
func TestRenewByHand_AMinHoldIsStillShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{NoRenew: On, MinHold: time.Minute})
		l := lock(t, locks, "a")
		same(t, "calls", s.ops(), "try renew")
		time.Sleep(29 * time.Second)
		same(t, "calls", s.ops(), "try renew")
		release(t, l)
		_, err := locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
	})
}

// A lease that renews itself continues to do so.
func TestRenewByHand_OfALeaseThatRenewsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(time.Second)
		renew(t, l, time.Hour)
		same(t, "deadline", l.Deadline(), ends(start.Add(time.Second), time.Hour))
		time.Sleep(11 * time.Second)
		same(t, "deadline", l.Deadline(), ends(start.Add(time.Second), time.Hour))
		same(t, "renewals", len(s.made("renew")), 2) // the second after 11 s
		cut := time.Now()
		renew(t, l, 6*time.Second)
		same(t, "deadline", l.Deadline(), ends(cut, 6*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "deadline", l.Deadline(), ends(cut.Add(2*time.Second), 30*time.Second))
		time.Sleep(time.Hour)
		if !l.Valid() {
			t.Fatal("the lease was lost")
		}
		release(t, l)
	})
}

func TestRenewByHand_CloseEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{NoRenew: On})
		l := lock(t, locks, "a")
		s.renewalsFail(time.Now().Add(time.Hour))
		var err error
		var call sync.WaitGroup
		call.Go(func() { err = l.Renew(t.Context(), 30*time.Second) })
		time.Sleep(time.Second)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		call.Wait()
		is(t, err, ErrReleased, ErrClosed)
		is(t, l.Renew(t.Context(), 30*time.Second), ErrClosed)
	})
}

// A renewal by hand counts for all leases of a hold.
func TestRenewByHand_Reentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{NoRenew: On, Reentrant: On})
		outer := lock(t, locks, "a")
		inner := take(t, outer.Context(t.Context()), locks.Mutex("a").Lock)
		time.Sleep(10 * time.Second)
		renew(t, inner, time.Minute)
		same(t, "deadline", outer.Deadline(), ends(time.Now(), time.Minute))
		release(t, inner)
		is(t, inner.Renew(t.Context(), time.Minute), ErrReleased)
		renew(t, outer, 2*time.Minute)
		release(t, outer)
	})
}

// Renewals by hand, automatic renewals and the release never
// overlap: the link checks that.
func TestRenewByHand_InAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		for _, none := range []Switch{Off, On} {
			l := lock(t, locker(t, s, &Options{TTL: 2 * time.Second, NoRenew: none}), "a")
			s.on(func(c *call) fate {
				f := fate{there: 50 * time.Millisecond, back: 50 * time.Millisecond}
				if c.n%3 == 0 {
					f.lose = errLink
				}
				return f
			})
			var storm sync.WaitGroup
			for i := range 20 {
				storm.Go(func() {
					for j := range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(30+i*j)*time.Millisecond)
						err := l.Renew(ctx, time.Duration(1500+100*i)*time.Millisecond)
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						cancel()
						time.Sleep(time.Duration(i+j) * time.Millisecond)
					}
				})
			}
			storm.Wait()
			s.on(nil)
			renew(t, l, 10*time.Second)
			same(t, "deadline", l.Deadline(), ends(time.Now(), 10*time.Second))
			release(t, l)
			synctest.Wait()
			empty(t, s.mem)
		}
	})
}

// A grant in a session for positions lasts only as long as a position. So it is renewed once before the caller has it.
func TestRenewByHand_AfterAWaitInASessionTheTTLIsWhole(t *testing.T) {
	for _, polls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			o := other(t, s.mem, "a", time.Hour)
			in := inSession{withSession{withPolls{s}}, map[store.ID]bool{}}
			on := store.Store(in)
			if !polls {
				on = struct{ store.Store }{in}
			}
			w := waits(t, locker(t, on, &Options{NoRenew: On}).Mutex("a").Lock)
			time.Sleep(3 * time.Second)
			o.release()
			l := w.got()
			if left := time.Until(l.Deadline()); left < 25*time.Second {
				t.Errorf("polls %v: the lease lasts for %v, want about 30 s", polls, left)
			}
			same(t, "expiry in the store", stored(s.mem, "a").Entries[0].Expires, 30*time.Second)
			release(t, l)
		})
	}
}

// On a store that compares and swaps, a claim can wait within its first ask. Then it is in the session for positions, too.
func TestRenewByHand_AfterAWaitWithinAnAskTheTTLIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := struct{ store.Store }{askedInSession{newLink(t)}} // it has no notifications, so the first ask may wait
		l := take(t, t.Context(), locker(t, on, &Options{NoRenew: On}).Mutex("a").Lock)
		if left := time.Until(l.Deadline()); left < 25*time.Second {
			t.Errorf("the lease lasts for %v, want about 30 s", left)
		}
		release(t, l)
	})
}

// An askedInSession is a store that grants a claim that may wait only for the time of a position.
type askedInSession struct{ *link }

func (s askedInSession) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.link.Ask(ctx, c)
	if !c.Try {
		a.TTL = min(a.TTL, store.MaxPositionTTL)
	}
	return a, err
}

// An inSession is a store that grants a claim that has waited only for the time of a position.
type inSession struct {
	withSession
	waited map[store.ID]bool
}

func (s inSession) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.withSession.Ask(ctx, c)
	if a.Granted && s.waited[c.ID] {
		a.TTL = min(a.TTL, store.MaxPositionTTL)
	}
	s.waited[c.ID] = s.waited[c.ID] || err == nil && !a.Granted
	return a, err
}

func (s inSession) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.withSession.Poll(ctx, c)
	a.TTL = min(a.TTL, store.MaxPositionTTL)
	return a, err
}
