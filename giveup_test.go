package holdfast

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// asksFor is a waiter of another process that asks the holders to give up.
func asksFor(t testing.TB, mem *memstore.Store, reason string) *waiter {
	return waits(t, locker(t, withNotifications{linkTo(t, mem)}, &Options{AskToGiveUp: reason}).Mutex("a").Lock)
}

// listens is the lease's AskedToGiveUp once that is subscribed.
func listens(l *Lease) <-chan struct{} {
	defer synctest.Wait()
	return l.AskedToGiveUp()
}

// B165.
func TestGiveUp_AHolderIsAskedAtOnceWhereTheStoreNotifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, withNotifications{s}, nil), "a")
		asked := listens(l)
		time.Sleep(time.Second)
		same(t, "asked before the request", over(asked), false)
		w := asksFor(t, s.mem, "version 2 waits")
		same(t, "asked", over(asked), true)
		same(t, "reason", l.GiveUpReason(), "version 2 waits")
		same(t, "the lease is valid", l.Valid(), true)
		release(t, l)
		same(t, "the next holder is asked", over(w.got().AskedToGiveUp()), false)
	})
}

func TestGiveUp_AHolderIsAskedWithItsNextRenewalElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		asked := listens(l)
		asksFor(t, s.mem, "please")
		time.Sleep(10*time.Second - 1)
		same(t, "asked before its renewal", over(asked), false)
		time.Sleep(time.Nanosecond)
		same(t, "asked", over(asked), true)
		same(t, "renewals", len(s.made("renew")), 1)
	})
}

func TestGiveUp_ARequestFromBeforeTheGrantCountsAtRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		first := lock(t, locker(t, withNotifications{s}, nil), "a")
		second := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
		asksFor(t, s.mem, "please")
		release(t, first)
		asked := second.got().AskedToGiveUp()
		time.Sleep(10 * time.Second)
		same(t, "asked", over(asked), true)
	})
}

// A request that comes before any lease listens is received as soon as one does.
func TestGiveUp_ARequestFromBeforeSubscribingIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, withNotifications{s}, nil), "a")
		asksFor(t, s.mem, "please")
		same(t, "asked", over(listens(l)), true)
		same(t, "renewals", len(s.made("renew")), 1)
	})
}

// So is a request in a process that has already subscribed for another lease.
func TestGiveUp_ARequestFromBeforeTheListenerIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		listens(lock(t, locks, "other"))
		l, calm := lock(t, locks, "a"), lock(t, locks, "calm")
		asksFor(t, s.mem, "please")
		before := len(s.made())
		same(t, "asked", over(listens(l)), true)
		same(t, "reason", l.GiveUpReason(), "please")
		listens(calm)
		same(t, "calls for the lease that was asked about", len(s.made())-before, 1)
	})
}

// Without a listener there are no additional calls; a listener subscribes once.
func TestGiveUp_WithoutARequestNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		a, b := lock(t, locks, "a"), lock(t, locks, "b")
		time.Sleep(35 * time.Second)
		same(t, "calls", s.ops(), "try try renew renew renew")
		listens(a)
		same(t, "calls once the first lease listens", s.ops(), "try try renew renew renew watch renew")
		for range 3 {
			a.AskedToGiveUp()
			b.AskedToGiveUp()
		}
		time.Sleep(time.Second)
		before := len(s.made())
		time.Sleep(time.Minute)
		n := 0
		for _, c := range s.made()[before:] {
			same(t, "call", c.op, "renew")
			n += len(c.holds)
		}
		same(t, "renewals of two leases in a minute", n, 12)
		release(t, a)
		release(t, b)
		same(t, "kept", locks.kept(), 0)
	})
}

func TestGiveUp_AfterTheLastRequestThereIsANewChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, withNotifications{s}, nil), "a")
		asked := listens(l)
		w := asksFor(t, s.mem, "please")
		same(t, "asked", over(asked), true)
		w.cancel()
		time.Sleep(10 * time.Second)
		same(t, "the old channel is closed", over(asked), true)
		same(t, "asked after the last request was withdrawn", over(l.AskedToGiveUp()), false)
		same(t, "reason", l.GiveUpReason(), "")
		asksFor(t, s.mem, "once more")
		same(t, "asked again", over(l.AskedToGiveUp()), true)
		same(t, "reason", l.GiveUpReason(), "once more")
	})
}

func TestGiveUp_AnEventForEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		l := lock(t, locks, "a")
		w := asksFor(t, s.mem, "please")
		time.Sleep(time.Minute)
		w.cancel()
		asksFor(t, s.mem, "now")
		time.Sleep(time.Minute)
		synctest.Wait()
		var reported []string
		for _, e := range o.all {
			if e.Kind == EventAskedToGiveUp {
				reported = append(reported, e.Reason)
				same(t, "event", plain(e), eventOf(EventAskedToGiveUp, l.Token(), e.After, nil))
			}
		}
		same(t, "asked", strings.Join(reported, ", "), "please, now")
	})
}

// A claim in the local queue has no ask in the store: the first claim of its
// process asks for it.
func TestGiveUp_ALocallyQueuedWaiterAsksToo(t *testing.T) {
	for _, late := range []time.Duration{0, 200 * time.Millisecond} { // of the answers to those ahead
		synctest.Test(t, func(t *testing.T) {
			s, far := newLink(t), (*link)(nil)
			l := lock(t, locker(t, withNotifications{s}, nil), "a")
			asked := listens(l)
			far = linkTo(t, s.mem)
			far.on(func(*call) fate { return fate{back: late} })
			others := locker(t, withNotifications{far}, nil)
			others.engine.Subscribe(t.Context()) // so that the first ask is one for a position
			waits(t, others.Mutex("a").Lock)
			waits(t, others.Mutex("a").Lock)
			asks := waits(t, others.With(&Options{AskToGiveUp: "please"}).Mutex("a").Lock)
			time.Sleep(3 * late)
			same(t, "asked", over(asked), true)
			if n := len(far.made("ask")); n > 2 {
				t.Fatalf("%d asks after a claim joined the local queue, want at most 2", n)
			}
			asks.cancel()
			asks.failed(context.Canceled)
			time.Sleep(20 * time.Second)
			same(t, "asked after the waiter left", over(l.AskedToGiveUp()), false)
		})
	}
}

func TestGiveUp_AWaiterOfTheSameProcessAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, withNotifications{newLink(t)}, nil)
		l := lock(t, locks, "a")
		asked := listens(l)
		w := waits(t, locks.With(&Options{AskToGiveUp: "please"}).Mutex("a").Lock)
		time.Sleep(time.Second) // until then it can be handed the name
		same(t, "asked", over(asked), true)
		release(t, l)
		w.got()
	})
}

// A claim that asks does not wait for a hand-over, which the holder may delay for an hour.
func TestGiveUp_AWaiterOfTheSameProcessAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, withNotifications{newLink(t)}, &Options{HandOver: &HandOver{Times: 64, For: time.Hour}})
		l := lock(t, locks, "a")
		asked := listens(l)
		in := waits(t, locks.Mutex("a").Lock) // first in the local queue, and does not ask
		w := waits(t, locks.With(&Options{AskToGiveUp: "please"}).Mutex("a").Lock)
		same(t, "asked", over(asked), true)
		release(t, l)
		release(t, in.got())
		release(t, w.got())
	})
}

// The request comes while a renewal is under way that has not read the reason.
func TestGiveUp_ARequestDuringARenewalRenewsOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, withNotifications{s}, nil), "a")
		asked := listens(l)
		before := len(s.made("renew"))
		s.on(func(*call) fate { return fate{back: 2 * time.Second} })
		time.Sleep(11 * time.Second)
		asksFor(t, s.mem, "please")
		same(t, "asked before the renewal", over(asked), false)
		time.Sleep(3 * time.Second)
		same(t, "asked", over(asked), true)
		same(t, "renewals", len(s.made("renew"))-before, 2)
	})
}

func TestGiveUp_AHolderReadsAfterMissedNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, withNotifications{s}, nil), "a")
		asked := listens(l)
		s.onNotification(drop)
		asksFor(t, s.mem, "please")
		same(t, "asked although the notification was lost", over(asked), false)
		s.tell(store.Notification{})
		same(t, "asked", over(asked), true)
	})
}

// A lease that its owner renews by hand is not extended by a request.
func TestGiveUp_ARenewalByHandDeliversARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := byHandLease(t, withNotifications{s})
		asked := listens(l)
		asksFor(t, s.mem, "please")
		same(t, "renewals", len(s.made("renew")), 0)
		renew(t, l, 6*time.Second)
		same(t, "asked", over(asked), true)
	})
}

func TestGiveUp_AHandedOverLeaseIsAskedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		asked := listens(l)
		asksFor(t, s.mem, "please")
		same(t, "asked", over(asked), true)
		w := waits(t, locks.Mutex("a").Lock)
		release(t, l)
		next := w.handed()
		same(t, "a lease that was handed over is asked", over(l.AskedToGiveUp()) || l.GiveUpReason() != "", false)
		same(t, "asked", over(next.AskedToGiveUp()), true)
		same(t, "reason", next.GiveUpReason(), "please")
	})
}

func TestGiveUp_AnEndedLeaseIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, withNotifications{newLink(t)}, nil)
		l := lock(t, locks, "a")
		release(t, l)
		same(t, "asked", over(l.AskedToGiveUp()), false)
		same(t, "kept", locks.kept(), 0)
	})
}

func TestGiveUp_AStoreThatCannotPassItOnSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.desc.Lacks = map[store.Promise]string{store.PromiseGiveUp: "it keeps no reasons"}
		locks := locker(t, withNotifications{s}, nil)
		_, err := locks.With(&Options{AskToGiveUp: "please"}).Mutex("a").Lock(t.Context())
		is(t, err, ErrUnsupported)
		same(t, "asked", over(lock(t, locks, "a").AskedToGiveUp()), false)
		same(t, "calls", s.ops(), "try")
		_, err = locker(t, newLink(t), nil).With(&Options{AskToGiveUp: strings.Repeat("x", store.MaxReason+1)}).Mutex("a").Lock(t.Context())
		is(t, err, ErrInvalid)
	})
}

// If several claims have positions, only one asks for those behind them.
func TestGiveUp_OneWithAPositionAsksForTheLocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, withNotifications{s}, nil)
		waits(t, locks.RWMutex("a").Read().Lock)
		waits(t, locks.RWMutex("a").Read().Lock)
		waits(t, locks.With(&Options{AskToGiveUp: "please"}).Mutex("a").Lock)
		time.Sleep(10 * time.Second)
		asking := map[store.ID]bool{}
		for _, c := range s.made("ask") {
			if c.claim.GiveUp != "" {
				asking[c.id] = true
			}
		}
		same(t, "positions that ask", len(asking), 1)
	})
}
