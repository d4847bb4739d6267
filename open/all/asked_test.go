package all_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// lacks reports whether the store lacks the promise.
func (p *pair) lacks(promise store.Promise) bool {
	_, lacks := p.inspect.(store.Store).Describe().Lacks[promise]
	return lacks
}

// B165 between processes.
func TestGiveUp_OnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{RenewEvery: 2 * time.Second}, func(t *testing.T, p *pair) {
		ctx := within(t)
		l := must[*holdfast.Lease](t)(p.here.Mutex("a").TryLock(ctx))
		asked := l.AskedToGiveUp()
		asks := p.there.With(&holdfast.Options{AskToGiveUp: "version 2 waits"}).Mutex("a")
		if p.lacks(store.PromiseGiveUp) {
			if _, err := asks.Lock(ctx); !errors.Is(err, holdfast.ErrUnsupported) {
				t.Fatalf("got %v, want ErrUnsupported", err)
			}
			release(t, l)
			return
		}
		next := make(chan *holdfast.Lease, 1)
		go func() {
			lease, err := asks.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			next <- lease
		}()
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("the holder was not asked to give up")
		}
		if why := l.GiveUpReason(); why != "version 2 waits" {
			t.Fatalf("the holder was asked with the reason %q", why)
		}
		release(t, l)
		if second := <-next; second != nil {
			release(t, second)
		}
	})
}

// An upgrade in another process asks the reader that blocks it, and reports that it waits.
func TestGiveUp_AnUpgradeAsksOnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{RenewEvery: 2 * time.Second}, func(t *testing.T, p *pair) {
		ctx := within(t)
		waiting := make(chan holdfast.Event, 100)
		by := p.there.With(&holdfast.Options{AskToGiveUp: "I write", Observer: func(e holdfast.Event) {
			if e.Kind == holdfast.EventWaiting {
				waiting <- e
			}
		}})
		u := must[*holdfast.UpgradeableLease](t)(by.RWMutex("a").Upgradeable().TryLock(ctx))
		r := must[*holdfast.Lease](t)(p.here.RWMutex("a").Read().TryLock(ctx))
		asked, own := r.AskedToGiveUp(), u.AskedToGiveUp()
		upgraded := make(chan error, 1)
		go func() { upgraded <- u.Upgrade(ctx) }()
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("the reader was not asked to give up")
		}
		if why := r.GiveUpReason(); why != "I write" {
			t.Fatalf("the reader was asked with the reason %q", why)
		}
		select {
		case e := <-waiting:
			held := (*holdfast.HeldError)(nil)
			if !errors.As(e.Err, &held) || len(held.Holders) != 1 || held.Holders[0].ID != r.ID() || e.Token != u.Token() {
				t.Fatalf("%+v", e)
			}
		case <-ctx.Done():
			t.Fatal("no event reports the wait")
		}
		select {
		case <-own:
			t.Fatal("the upgrade asks its own lease")
		default:
		}
		release(t, r)
		if err := <-upgraded; err != nil {
			t.Fatal(err)
		}
		release(t, u.Lease)
	})
}

// B32 between processes.
func TestSemaphore_TwoTotalsOnEachStore(t *testing.T) {
	eachStore(t, nil, func(t *testing.T, p *pair) {
		ctx := within(t)
		first := must[*holdfast.Lease](t)(p.here.Semaphore("s", 5).TryAcquire(ctx, 2))
		_, err := p.there.Semaphore("s", 3).TryAcquire(ctx, 2)
		if p.lacks(store.PromiseTotals) {
			if !errors.Is(err, holdfast.ErrMismatch) {
				t.Fatalf("got %v, want ErrMismatch", err)
			}
			release(t, first)
			return
		}
		if !errors.Is(err, holdfast.ErrHeld) {
			t.Fatalf("two more with a total of three: got %v, want ErrHeld", err)
		}
		second := must[*holdfast.Lease](t)(p.there.Semaphore("s", 3).TryAcquire(ctx, 1))
		if _, err := p.here.Semaphore("s", 5).TryAcquire(ctx, 1); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatalf("a fourth slot while a holder has a total of three: got %v, want ErrHeld", err)
		}
		release(t, second)
		third := must[*holdfast.Lease](t)(p.here.Semaphore("s", 5).TryAcquire(ctx, 3))
		release(t, third)

		// A waiter is granted once both totals leave room: two of three and four of five are never held together. This
		// test does not check which is first: where waiters poll, a waiter may be visible before it has its queue
		// position.
		waits := func(l *holdfast.Locker, total, n int) chan *holdfast.Lease {
			in, before := make(chan *holdfast.Lease, 1), len(p.entries(t, "s"))
			go func() {
				lease, err := l.Semaphore("s", total).Acquire(ctx, n)
				if err != nil {
					t.Error(err)
				}
				in <- lease
			}()
			until(t, "one more claim waits", func() bool { return len(p.entries(t, "s")) == before+1 })
			return in
		}
		three := waits(p.there, 3, 2)
		five := waits(p.here, 5, 4)
		release(t, first)
		next := five
		select {
		case second = <-three:
		case second = <-five:
			next = three
		}
		if second == nil {
			return
		}
		select {
		case lease := <-next:
			t.Errorf("two of three slots and four of five are held at once: %v and %v", second, lease)
			return
		default:
		}
		release(t, second)
		if lease := <-next; lease != nil {
			release(t, lease)
		}
	})
}

// B164, B65: another process sees the holder, and breaks the lock.
func TestLookAndBreak_OnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{RenewEvery: time.Second}, func(t *testing.T, p *pair) {
		ctx := within(t)
		l := must[*holdfast.Lease](t)(p.here.With(&holdfast.Options{Note: "the first"}).Mutex("tenant/a").TryLock(ctx))
		release(t, must[*holdfast.Lease](t)(p.here.Mutex("b").TryLock(ctx)))
		waiting, cancel := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := p.there.With(&holdfast.Options{Note: "the second"}).RWMutex("tenant/a").Read().Lock(waiting)
			left <- err
		}()
		var all []holdfast.Status
		until(t, "one claim holds and one waits", func() bool {
			all = must[[]holdfast.Status](t)(p.there.List(ctx, "tenant/"))
			return len(all) == 1 && len(all[0].Holders) == 1 && len(all[0].Waiters) == 1
		})
		h, w := all[0].Holders[0], all[0].Waiters[0]
		if h.Note != "the first" || h.ID != l.ID() || h.Token != l.Token() || h.Mode != holdfast.ModeWrite || w.Note != "the second" || w.Mode != holdfast.ModeRead {
			t.Fatalf("%+v", all)
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		err := p.there.Break(ctx, holdfast.Break{Name: "tenant/a", ID: h.ID, Token: h.Token, Reason: "why", By: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Lost():
		case <-ctx.Done():
			t.Fatal("the broken lease is not lost")
		}
		if err := l.Release(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "alice: why") {
			t.Fatal(err)
		}
	})
}
