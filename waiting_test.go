package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// waited is what was told of those who wait: how many wait ahead, who holds, and
// after what time.
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

func TestObserver_IsToldThatAClaimBeginsToWait(t *testing.T) {
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

// News is another holder, and fewer ahead.
func TestObserver_IsToldWhenThePositionChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		first := other(t, s.mem, "a", time.Hour)
		next := waits(t, locker(t, linkTo(t, s.mem), &Options{Note: "next"}).Mutex("a").Lock)
		o := &observer{}
		waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, &Options{Observer: o.tell}).Mutex("a").Lock)
		same(t, "told", o.waited(), "1 behind elsewhere after 0s")
		time.Sleep(time.Minute)
		first.release()
		next.got()
		time.Sleep(time.Minute)
		if got := o.waited(); !strings.HasPrefix(got, "1 behind elsewhere after 0s, 0 behind ") || strings.Count(got, ",") != 1 || !strings.Contains(got, "next") {
			t.Fatal(got)
		}
	})
}

func TestObserver_IsToldOfWaitsInTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		other(t, s.mem, "a", time.Hour)
		for range 3 {
			waits(t, locks.Mutex("a").Lock)
		}
		same(t, "told", o.waited(), "0 behind elsewhere after 0s, 1 behind elsewhere after 0s, 2 behind elsewhere after 0s")
	})
}

func TestMaxWaiting_BeyondItLockFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, &Options{MaxWaiting: 3})
		another := other(t, s.mem, "a", time.Hour)
		var all []*waiter
		for range 3 {
			all = append(all, waits(t, locks.Mutex("a").Lock))
		}
		start := time.Now()
		_, err := locks.Mutex("a").Lock(t.Context())
		same(t, "took", time.Since(start), 0)
		is(t, err, ErrHeld)
		same(t, "holder", heldBy(t, err).Host, "elsewhere")
		if !strings.Contains(err.Error(), "MaxWaiting") {
			t.Fatal(err)
		}
		same(t, "told", o.told(), "refused 0s")
		_, err = locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		for _, w := range all {
			w.waiting()
		}

		// Another name has its own bound, and so has another locker.
		release(t, lock(t, locks, "b"))
		waits(t, locks.With(&Options{MaxWaiting: 4}).Mutex("a").Lock)

		another.release()
		release(t, all[0].got())
		waits(t, locks.With(&Options{MaxWaiting: 4}).Mutex("a").Lock)
	})
}

// Who is not answered yet does not wait yet: with room for all nobody is refused.
func TestMaxWaiting_ClaimsThatAreGrantedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{MaxWaiting: 1})
		slow(s, 100*time.Millisecond)
		for range 5 {
			waits(t, locks.RWMutex("a").Read().Lock)
		}
		time.Sleep(time.Second)
		same(t, "held", len(locks.Held()), 5)
		_, err := locker(t, newLink(t), nil).With(&Options{MaxWaiting: -2}).Mutex("a").Lock(t.Context())
		is(t, err, ErrInvalid)
	})
}
