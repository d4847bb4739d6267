package storetest

import (
	"cmp"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var positionPromises = []promise{
	{name: "a_repeated_ask_keeps_the_same_position", needs: order, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		first, second := b.lock(name), c.lock(name)
		b.refused(first)
		c.refused(second)
		for range 3 {
			if r := b.refused(first); r.Waiting != 0 {
				t.Fatalf("the first waiter: got %d ahead of it, want none", r.Waiting)
			}
		}
		t.entries(name, h.ID, first.ID, second.ID)
		h.release()
		c.refused(second)
		b.take(first).release()
		c.take(second).release()
		t.empty(name)
	}},
	{name: "a_position_given_up_is_gone", run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		first, second := b.lock(name), c.lock(name)
		b.refused(first)
		c.refused(second)
		b.withdraw(first)
		b.withdraw(first)
		t.entries(name, h.ID, second.ID)
		if r := c.refused(second); r.Waiting != 0 {
			t.Fatalf("the only waiter: got %d ahead of it, want none", r.Waiting)
		}
		h.release()
		c.take(second).release()
		t.empty(name)
	}},
	{name: "a_position_lapses_unless_it_is_asked_for", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead, next := b.lock(name, withPositionTTL(t.short)), c.lock(name)
		b.refused(dead)
		c.refused(next)
		t.until("the dead waiter has left the queue", func() bool { return c.refused(next).Waiting == 0 })
		t.entries(name, h.ID, next.ID)
		h.release()
		k := c.take(next)
		b.refused(b.lock(name, try))
		k.release()
		t.empty(name)
	}},
	{name: "a_lapsed_position_is_never_granted", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead, next := b.lock(name, withPositionTTL(t.short)), c.lock(name)
		b.refused(dead)
		c.refused(next)
		t.expired(dead)
		h.release() // grants the claim behind it
		c.take(next)
		// A store that has forgotten the id may take it as a new claim, behind all others.
		if r, err := b.Ask(t.ctx, dead); err == nil && r.Granted || err != nil && !errors.Is(err, store.ErrLost) {
			t.Fatalf("ask for an expired position: got %+v, %v", r, err)
		}
	}},
	{name: "a_lapsed_position_asked_for_is_lost_or_begins_at_the_end", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead, next := b.lock(name, withPositionTTL(t.short)), c.lock(name)
		b.refused(dead)
		c.refused(next)
		t.expired(dead)
		if r, err := b.Ask(t.ctx, dead); err == nil && r.Waiting != 1 || err != nil && !errors.Is(err, store.ErrLost) {
			t.Fatalf("ask for an expired position: got %+v, %v, want ErrLost or a position behind the other waiter", r, err)
		}
		h.release()
		c.take(next)
	}},
	{name: "a_position_asked_for_again_outlives_its_time", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		var first store.Claim
		t.stays("a position", func(d time.Duration) store.Instant {
			first = b.lock(name, withPositionTTL(d))
			b.withdraw(first)
			from := b.refused(first).From
			c.refused(c.lock(name, withPositionTTL(d))) // a claim behind it, which is not renewed
			return from
		}, func(time.Duration) (store.Instant, error) {
			r, err := b.Ask(t.ctx, first)
			if err == nil && r.Granted {
				err = errors.New("another was granted while it is held")
			}
			return r.From, err
		})
		h.release()
		if r, err := b.Ask(t.ctx, first); err != nil || !r.Granted {
			t.Logf("too slow to acquire it: %+v, %v", r, err)
		}
	}},
	{name: "a_grant_lasts_as_long_as_the_position_until_its_owner_polls",
		needs: []store.Promise{store.PromiseInspect, store.PromisePositionTTL, store.PromiseDrawn}, run: func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			h := a.take(a.lock(name))
			if t.long <= store.MaxPositionTTL {
				t.Skipf("the greatest TTL, %v, is no longer than a position", t.long)
			}
			w := b.lock(name)
			b.refused(w)
			h.release()
			e, _ := t.entry(name, w.ID)
			if !e.Granted || e.Token == 0 || e.Expires > w.PositionTTL+t.d.Tick {
				t.Fatalf("the entry of the waiter is %+v, want granted, with at most %v left", e, w.PositionTTL)
			}
			before := time.Now()
			k := b.take(w)
			e, _ = t.entry(name, w.ID)
			if left := t.long - time.Since(before) - t.d.Tick; e.Expires < left {
				t.Fatalf("it expires %v after the poll of its owner, want at least %v", e.Expires, left)
			}
			if k.Token != e.Token {
				t.Fatalf("granted token %d, but listed with %d", k.Token, e.Token)
			}
		}},
	{name: "a_grant_that_is_not_polled_expires_with_the_position", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead := b.lock(name, withPositionTTL(t.short))
		b.refused(dead)
		h.release()
		var next *held
		claim := a.lock(name)
		t.until("the next is granted", func() bool {
			r := a.ask(claim)
			if r.Granted {
				next = a.take(claim)
			}
			return r.Granted
		})
		next.release()
		t.empty(name)
	}},
}

// stays checks that something that lasts for d without renewal lasts for three times d if it
// is renewed. begin and renew return from when the time counts by their answers, or 0: from
// their call. A round in which this machine was too slow to renew in time proves nothing, and
// is repeated with twice the time.
func (t *trial) stays(what string, begin func(d time.Duration) store.Instant, renew func(d time.Duration) (store.Instant, error)) {
	t.Helper()
	d := t.ticks(max(t.d.MinTTL, 400*time.Millisecond, t.short))
	for range 12 {
		start := store.Now()
		for last := cmp.Or(begin(d), start); ; {
			time.Sleep(d / 8)
			sent := store.Now()
			from, err := renew(d)
			if store.Now().Sub(last) > d*3/4 {
				break // too slow, whatever the answer: if its session was not renewed meanwhile, it counts from earlier
			}
			if err != nil {
				t.Fatalf("%s of %v, renewed in time, was lost after %v: %v", what, d, store.Now().Sub(start), err)
			}
			last = cmp.Or(from, sent)
			if sent.Sub(start) > 3*d {
				t.judge.waits(min(store.Now().Sub(start), 4*d))
				return
			}
		}
		d = max(d, t.ticks(min(2*d, store.MaxPositionTTL-t.d.Tick, t.d.MaxTTL-t.d.Tick)))
	}
	t.Fatalf("this machine is too busy to renew %s of %v in time", what, d)
}
