package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// waited is what the events of waiting claims said: how many wait ahead, who holds,
// and after what time.
func (o *observer) waited() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	var s []string
	for _, e := range o.waits {
		held := (*HeldError)(nil)
		switch {
		case !errors.As(e.Err, &held):
			s = append(s, e.Err.Error())
		case len(held.Holders) == 0:
			s = append(s, fmt.Sprint(held.Waiting, " behind somebody"))
		default:
			h := held.Holders[0]
			s = append(s, fmt.Sprintf("%d behind %s after %v", held.Waiting, h.Host+h.Note, e.After))
		}
	}
	return strings.Join(s, ", ")
}

func TestObserver_ReceivesTheBeginningOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		other(t, s.mem, "a", time.Hour)
		time.Sleep(5 * time.Second)
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "events", len(o.waits), 1)
		e := o.waits[0]
		same(t, "event", fmt.Sprint(e.Kind, e.Name, e.Store, e.Token, e.After), "waitingaa link0 0s")
		h := heldBy(t, e.Err)
		same(t, "holder", h.Host, "elsewhere")
		same(t, "held for", time.Since(h.Since), 65*time.Second)
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
	})
}

// A change is another holder, or fewer claims ahead.
func TestObserver_ReceivesANewPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		first := other(t, s.mem, "a", time.Hour)
		next := waits(t, locker(t, linkTo(t, s.mem), &Options{Note: "next"}).Mutex("a").Lock)
		o := &observer{}
		waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, &Options{Observer: o.tell}).Mutex("a").Lock)
		same(t, "events", o.waited(), "1 behind elsewhere after 0s")
		time.Sleep(time.Minute)
		first.release()
		next.got()
		time.Sleep(time.Minute)
		if got := o.waited(); !strings.HasPrefix(got, "1 behind elsewhere after 0s, 0 behind ") || strings.Count(got, ",") != 1 || !strings.Contains(got, "next") {
			t.Fatal(got)
		}
	})
}

// watchesWait returns the observer of a claim that waits for one slot, or for a, in its
// own process.
func watchesWait(t *testing.T, s *link, wait func(*Locker) func(context.Context) (*Lease, error)) *observer {
	o := &observer{}
	waits(t, wait(locker(t, withNotifications{linkTo(t, s.mem)}, &Options{Observer: o.tell})))
	return o
}

func waitsForA(locks *Locker) func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock }

func TestObserver_ReceivesThatOneAheadLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		leaves := waits(t, locker(t, linkTo(t, s.mem), nil).Mutex("a").Lock)
		o := watchesWait(t, s, waitsForA)
		time.Sleep(time.Minute)
		leaves.cancel()
		leaves.failed(context.Canceled)
		time.Sleep(time.Minute)
		if got := o.waited(); !strings.HasPrefix(got, "1 behind elsewhere after 0s, 0 behind elsewhere after ") || strings.Count(got, ",") != 1 {
			t.Fatal(got)
		}
	})
}

// The first holder stays, and no claim joins the queue.
func TestObserver_ReceivesThatOneOfTheHoldersLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		slot := func() *Lease {
			l, err := locker(t, linkTo(t, s.mem), &Options{Note: "one"}).Semaphore("a", 2).TryAcquire(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		_, second := slot(), slot()
		o := watchesWait(t, s, func(locks *Locker) func(context.Context) (*Lease, error) {
			return locks.Semaphore("a", 2).Slots(2).Lock
		})
		time.Sleep(time.Minute)
		release(t, second)
		time.Sleep(time.Minute)
		if got := o.waited(); strings.Count(got, ",") != 1 {
			t.Fatal(got)
		}
	})
}

// The hold continues under another id, with the same token.
func TestObserver_ReceivesAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, linkTo(t, s.mem), &Options{Note: "first"}), "a")
		o := watchesWait(t, s, waitsForA)
		ref, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker(t, linkTo(t, s.mem), &Options{Note: "second"}).Adopt(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := o.waited(); strings.Count(got, ",") != 1 || !strings.Contains(got, "second") {
			t.Fatal(got)
		}
	})
}

// The store of ownersOnly knows only the owner of a holder.
type ownersOnly struct{ *link }

func (s ownersOnly) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.link.Ask(ctx, c)
	for i := range a.Holders {
		a.Holders[i] = store.Entry{Granted: true, Owner: a.Holders[i].Owner}
	}
	return a, err
}

func TestObserver_ReceivesAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newLink(t), &observer{}
		l := lock(t, locker(t, linkTo(t, s.mem), &Options{Note: "first"}), "a")
		waits(t, locker(t, ownersOnly{linkTo(t, s.mem)}, &Options{Observer: o.tell}).Mutex("a").Lock)
		ref, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker(t, linkTo(t, s.mem), &Options{Note: "second"}).Adopt(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := o.waited(); strings.Count(got, ",") != 1 || !strings.Contains(got, "second") {
			t.Fatal(got)
		}
	})
}

func TestObserver_ReceivesWaitsInTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		other(t, s.mem, "a", time.Hour)
		for range 3 {
			waits(t, locks.Mutex("a").Lock)
		}
		same(t, "events", o.waited(), "0 behind elsewhere after 0s, 1 behind elsewhere after 0s, 2 behind elsewhere after 0s")
	})
}
