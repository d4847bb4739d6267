package holdfast

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A waiting upgrade: which holders it asks to give up, and who learns that it waits.

// readerElsewhere is a reader of a, in another process with notifications.
func readerElsewhere(t *testing.T, s *link, o *Options) *Lease {
	t.Helper()
	return take(t, t.Context(), locker(t, withNotifications{linkTo(t, s.mem)}, o).RWMutex("a").Read().TryLock)
}

func asking(t *testing.T, s store.Store, reason string) *UpgradeableLease {
	t.Helper()
	return upgradeableLease(t, locker(t, s, &Options{AskToGiveUp: reason}).RWMutex("a"))
}

// B165, for an upgrade.
func TestUpgrade_AsksTheReadersThatBlockItToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newLink(t), &observer{}
		u := asking(t, withNotifications{s}, "I write")
		here := take(t, t.Context(), locker(t, withNotifications{linkTo(t, s.mem)}, nil).RWMutex("a").Read().TryLock)
		there := readerElsewhere(t, s, &Options{Observer: o.tell})
		one, two, own := listens(here), listens(there), listens(u.Lease)
		same(t, "a reader is asked before the upgrade", over(one) || over(two), false)
		up := upgrading(t, u)
		for _, asked := range []<-chan struct{}{one, two} {
			same(t, "asked", over(asked), true)
		}
		same(t, "reason", here.GiveUpReason()+", "+there.GiveUpReason(), "I write, I write")
		event := o.last(t)
		same(t, "event", event.Kind.String()+": "+event.Reason, "asked to give up: I write")
		time.Sleep(time.Minute)
		same(t, "its own read lease is asked", over(own), false)
		release(t, here)
		up.waiting()
		release(t, there)
		up.got()
		time.Sleep(time.Minute)
		same(t, "its own lease is asked", over(own) || u.GiveUpReason() != "", false)
		downgrade(t, u)
		next := readerElsewhere(t, s, nil)
		asked := listens(next)
		time.Sleep(time.Minute)
		same(t, "a reader is asked after the upgrade was granted", over(asked), false)
	})
}

// The same for a reader of the process and locker that upgrades.
func TestUpgrade_AsksAReaderOfItsOwnProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, withNotifications{s}, &Options{AskToGiveUp: "I write"}).RWMutex("a")
		u, r := upgradeableLease(t, rw), take(t, t.Context(), rw.Read().TryLock)
		asked := listens(r)
		up := upgrading(t, u)
		same(t, "asked", over(asked), true)
		release(t, r)
		up.got()
	})
}

func TestUpgrade_RemoteReadersLearnAtTheirNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := asking(t, s, "I write")
		r := take(t, t.Context(), locker(t, linkTo(t, s.mem), nil).RWMutex("a").Read().TryLock)
		asked := listens(r)
		upgrading(t, u)
		time.Sleep(10*time.Second - 1)
		same(t, "asked before its renewal", over(asked), false)
		time.Sleep(time.Nanosecond)
		same(t, "asked", over(asked), true)
	})
}

func TestUpgrade_ACanceledOneAsksNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := asking(t, withNotifications{s}, "I write")
		r := readerElsewhere(t, s, nil)
		asked := listens(r)
		up := upgrading(t, u)
		same(t, "asked", over(asked), true)
		up.cancel()
		up.failed(context.Canceled, ErrHeld)
		time.Sleep(11 * time.Second) // by then it has been renewed
		same(t, "asked after the upgrade was canceled", over(r.AskedToGiveUp()) || r.GiveUpReason() != "", false)
		upgrading(t, u)
		same(t, "asked again", over(r.AskedToGiveUp()), true)
	})
}

func TestUpgrade_ATryAsksNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := asking(t, withNotifications{s}, "I write")
		r := readerElsewhere(t, s, nil)
		asked := listens(r)
		is(t, u.TryUpgrade(t.Context()), ErrHeld)
		same(t, "asked", over(asked), false)
		for _, c := range s.made("change") {
			same(t, "request to give up", c.holds[0].GiveUp, "")
		}
	})
}

func TestUpgrade_WithoutTheOptionAsksNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := asking(t, withNotifications{s}, "")
		r := readerElsewhere(t, s, nil)
		asked := listens(r)
		up := upgrading(t, u)
		time.Sleep(time.Minute)
		same(t, "asked", over(asked), false)
		release(t, r)
		up.got()
	})
}

func TestObserver_ReceivesAWaitingUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, &Options{Note: "the writer"})
		u := upgradeableLease(t, locks.RWMutex("a"))
		one := readerElsewhere(t, s, &Options{Note: "one"})
		time.Sleep(5 * time.Second)
		two := readerElsewhere(t, s, &Options{Note: "two"})
		slow(s, 20*time.Millisecond)
		up := upgrading(t, u)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "events", len(o.waits), 1)
		e, h := o.waits[0], (*HeldError)(nil)
		if !errors.As(e.Err, &h) {
			t.Fatal(e.Err)
		}
		same(t, "event", fmt.Sprint(e.Kind, " ", e.Name, " ", e.Store, " ", e.Token, " ", e.After, " ", e.ID, " ", e.Owner.Note),
			fmt.Sprint("waiting a a link ", u.Token(), " 20ms ", u.ID(), " the writer"))
		same(t, "holders", fmt.Sprint(len(h.Holders), h.Holders[0].Note, h.Holders[1].Note, h.Waiting), "2onetwo0")
		same(t, "held for", time.Since(h.Holders[0].Since).Round(time.Second), 65*time.Second)
		release(t, one)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "events after one reader left", len(o.waits), 2)
		if !errors.As(o.waits[1].Err, &h) {
			t.Fatal(o.waits[1].Err)
		}
		same(t, "holders", fmt.Sprint(len(h.Holders), h.Holders[0].Note), "1two")
		release(t, two)
		up.got()
		same(t, "events in the end", len(o.waits), 2)
	})
}

// As with claims, an upgrade that is granted at once, or only tried, has not waited.
func TestObserver_AnUpgradeWithoutAWaitIsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		u := upgradeableLease(t, locks.RWMutex("a"))
		upgradeNow(t, u)
		downgrade(t, u)
		if err := u.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		downgrade(t, u)
		r := readerElsewhere(t, s, nil)
		is(t, u.TryUpgrade(t.Context()), ErrHeld)
		synctest.Wait()
		same(t, "events", len(o.waits), 0)
		release(t, r)
	})
}
