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
				t.Fatalf("the first waiter is told of %d ahead of it", r.Waiting)
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
			t.Fatalf("%d ahead of the only waiter", r.Waiting)
		}
		h.release()
		c.take(second).release()
		t.empty(name)
	}},
	{name: "a_position_lapses_when_nobody_asks_for_it", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead, next := b.lock(name, withPositionTTL(t.short)), c.lock(name)
		b.refused(dead)
		c.refused(next)
		t.until("the dead waiter is out of the queue", func() bool { return c.refused(next).Waiting == 0 })
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
		h.release() // grants the one behind it
		c.take(next)
		// An id that the store has forgotten may come again, behind all others.
		if r, err := b.Ask(t.ctx, dead); err == nil && r.Granted || err != nil && !errors.Is(err, store.ErrLost) {
			t.Fatalf("ask for a lapsed position: %+v, %v", r, err)
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
			t.Fatalf("ask for a lapsed position: %+v, %v, want ErrLost or a position behind the other waiter", r, err)
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
			c.refused(c.lock(name, withPositionTTL(d))) // one behind it, which is not renewed
			return from
		}, func(time.Duration) (store.Instant, error) {
			r, err := b.Ask(t.ctx, first)
			if err == nil && r.Granted {
				err = errors.New("granted beside the holder")
			}
			return r.From, err
		})
		h.release()
		if r, err := b.Ask(t.ctx, first); err != nil || !r.Granted {
			t.Logf("too slow to take it: %+v, %v", r, err)
		}
	}},
	{name: "a_grant_by_anothers_release_keeps_the_positions_time_until_its_owner_polls",
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
				t.Fatalf("the waiter's entry is %+v, want granted, and at most %v left", e, w.PositionTTL)
			}
			before := time.Now()
			k := b.take(w)
			e, _ = t.entry(name, w.ID)
			if left := t.long - time.Since(before) - t.d.Tick; e.Expires < left {
				t.Fatalf("it expires %v after its owner looked, want %v", e.Expires, left)
			}
			if k.Token != e.Token {
				t.Fatalf("token %d, and listed as %d", k.Token, e.Token)
			}
		}},
	{name: "a_grant_that_nobody_polls_at_comes_free_in_the_positions_time", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead := b.lock(name, withPositionTTL(t.short))
		b.refused(dead)
		h.release()
		var next *held
		claim := a.lock(name)
		t.until("the next one is in", func() bool {
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

// stays shows that something that lasts for d without renewal lasts for three times d when it
// is renewed. begin and renew return from when the time counts by their answers, if not from
// their call; renew also returns an error. A round in which this machine was too slow to
// renew in time proves nothing, and is repeated with twice the time.
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
				break // too slow, whatever it said: an answer whose session was not renewed meanwhile counts from before
			}
			if err != nil {
				t.Fatalf("%s of %v, renewed in time, after %v: %v", what, d, store.Now().Sub(start), err)
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
