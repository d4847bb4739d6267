package storetest

import (
	"errors"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var pollPromises = []promise{
	{name: "a_poll_agrees_with_the_ask_and_writes_nothing", poll: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		claim := b.lock(name)
		l := b.poll(claim)
		if !l.Granted || l.Token != 0 {
			t.Fatalf("poll of a free name: got %+v, want room, and no token", l)
		}
		t.entries(name)
		h := a.take(a.read(name))
		l = b.poll(claim)
		t.entries(name, h.ID)
		r := b.refused(claim)
		t.same(l, r)
		t.same(b.poll(claim), b.refused(claim))
		other := b.read(name, try)
		t.same(b.poll(other), b.refused(other))
		t.entries(name, h.ID, claim.ID)
		if l := a.poll(h.claim); !l.Granted || l.Token != h.Token || l.Last < h.Token {
			t.Fatalf("poll of its own hold: got %+v, want token %d", l, h.Token)
		}
		h.release()
		if l := b.poll(claim); !l.Granted {
			t.Fatalf("poll after the release: got %+v, want granted", l)
		}
		b.take(claim).release()
		t.empty(name)
	}},
	{name: "a_poll_renews_no_hold", poll: true, needs: append(inspect, store.PromiseExpiry), run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		t.pass()
		t.unmoved(name, h.ID, h.claim.TTL, func() { a.poll(h.claim) })
	}},
	{name: "a_poll_keeps_no_position", poll: true, needs: append(inspect, store.PromiseExpiry), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.lock(name))
		w := b.lock(name)
		t.positioned(w)
		b.refused(w)
		t.pass()
		t.unmoved(name, w.ID, w.PositionTTL, func() { b.poll(w) })
	}},
	{name: "a_poll_at_an_expired_hold_is_lost", poll: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.until("the hold has expired", func() bool {
			_, err := a.Poll(t.ctx, h.claim)
			return errors.Is(err, store.ErrLost)
		})
		a.lost(h.claim)
		b.wait(b.lock(name, try)).release() // for its owner it expires slightly earlier
	}},
	{name: "a_poll_ignores_an_expired_hold_and_does_not_drop_it", poll: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.until("a poll reports room", func() bool { return b.poll(b.lock(name, try)).Granted })
		a.lost(h.claim) // it was not forgotten
		b.take(b.lock(name, try)).release()
	}},
	{name: "a_poll_draws_no_token", poll: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		newest := b.refused(w).Last
		for range 3 {
			b.poll(w)
			b.poll(b.lock(name))
		}
		if l := b.poll(w); l.Last != newest {
			t.Fatalf("the newest token changed from %d to %d", newest, l.Last)
		}
		h.release()
	}},
	{name: "a_position_that_polls_report_outlives_its_time", poll: true, needs: order, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		var lapses store.Instant // when it would have lapsed without polls; 0 once that was checked
		t.stays("a position", func(d time.Duration) store.Instant {
			b.withdraw(w)
			w = b.lock(name, withPositionTTL(d))
			lapses = store.Now().Add(2 * d)
			return b.refused(w).From
		}, func(time.Duration) (store.Instant, error) {
			l, err := b.Poll(t.ctx, w)
			if err == nil && l.From == 0 { // then asks keep it
				l, err = b.Ask(t.ctx, w)
			}
			if err == nil && lapses != 0 && store.Now() > lapses && !t.lacks(store.PromiseInspect) {
				lapses = 0 // only once: a list is slow
				if _, there := t.entry(name, w.ID); !there {
					err = errors.New("the position is not in the list")
				}
			}
			return l.From, err
		})
		h.release()
	}},
	{name: "a_poll_of_another_limit_is_a_mismatch", poll: true, needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.slots(name, 3, 1))
		_, err := b.Poll(t.ctx, b.lock(name))
		if !errors.Is(err, store.ErrMismatch) {
			t.Fatalf("poll with another limit: got %v, want ErrMismatch", err)
		}
	}},
}

// unmoved checks that look does not extend an entry that was last asked for, with a time of lasts, before a
// call of pass. If the machine stalls between look and the list, for so long that the list would show the same
// anyway, the trial is inconclusive.
func (t *trial) unmoved(name string, id store.ID, lasts time.Duration, look func()) {
	t.Helper()
	begun := time.Now()
	look()
	if e, ok := t.entry(name, id); !ok || e.Expires > lasts-t.short+t.d.Tick {
		t.Fatalf("asked for %v more than %v ago, and polled since, but listed as %+v, %v", lasts, t.short, e, ok)
	}
	t.soonEnough(time.Since(begun) < max(t.short-t.d.Tick, t.short/2))
}

func (c *client) poll(claim store.Claim) store.Answer {
	c.t.Helper()
	a, err := c.Poll(c.t.ctx, claim)
	if err != nil {
		c.t.Fatalf("poll: got %v, want an answer", err)
	}
	return a
}

// same checks that two refusals are equal, except for times.
func (t *trial) same(poll, ask store.Answer) {
	t.Helper()
	for _, a := range []*store.Answer{&poll, &ask} {
		a.Until, a.From, a.TTL, a.Unsure = 0, 0, 0, 0 // one may be for a claim with a position, and the other not
		for i := range a.Holders {
			e := &a.Holders[i]
			e.Age, e.Expires, e.Ends = 0, 0, 0
		}
	}
	if !reflect.DeepEqual(poll, ask) {
		t.Fatalf("got poll %+v\nask  %+v", poll, ask)
	}
}
