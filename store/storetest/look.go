package storetest

import (
	"errors"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var lookPromises = []promise{
	{name: "a_look_agrees_with_the_ask_and_writes_nothing", look: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		claim := b.lock(name)
		l := b.look(claim)
		if !l.Granted || l.Token != 0 {
			t.Fatalf("look at a free name: %+v, want room, and no token", l)
		}
		t.entries(name)
		h := a.take(a.read(name))
		l = b.look(claim)
		t.entries(name, h.ID)
		r := b.refused(claim)
		t.same(l, r)
		t.same(b.look(claim), b.refused(claim))
		other := b.read(name, try)
		t.same(b.look(other), b.refused(other))
		t.entries(name, h.ID, claim.ID)
		if l := a.look(h.claim); !l.Granted || l.Token != h.Token || l.Last < h.Token {
			t.Fatalf("look at the own hold: %+v, want token %d", l, h.Token)
		}
		h.release()
		if l := b.look(claim); !l.Granted {
			t.Fatalf("look after the release: %+v, want granted", l)
		}
		b.take(claim).release()
		t.empty(name)
	}},
	{name: "a_look_renews_no_hold", look: true, needs: append(inspect, store.PromiseExpiry), run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		t.pass()
		a.look(h.claim)
		t.unmoved(name, h.ID, h.claim.TTL)
	}},
	{name: "a_look_keeps_no_place", look: true, needs: append(inspect, store.PromiseExpiry), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		t.pass()
		b.look(w)
		t.unmoved(name, w.ID, w.Place)
	}},
	{name: "a_look_at_an_expired_hold_is_lost", look: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.until("the hold has expired", func() bool {
			_, err := a.Store.(store.Looker).Look(t.ctx, h.claim)
			return errors.Is(err, store.ErrLost)
		})
		a.lost(h.claim)
		b.take(b.lock(name, try)).release()
	}},
	{name: "a_look_sees_room_behind_an_expired_hold_and_does_not_drop_it", look: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.until("a look sees room", func() bool { return b.look(b.lock(name, try)).Granted })
		a.lost(h.claim) // it was not forgotten
		b.take(b.lock(name, try)).release()
	}},
	{name: "a_look_draws_no_token", look: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		told := b.refused(w).Last
		for range 3 {
			b.look(w)
			b.look(b.lock(name))
		}
		if l := b.look(w); l.Last != told {
			t.Fatalf("the newest token went from %d to %d", told, l.Last)
		}
		h.release()
	}},
	{name: "a_look_of_another_limit_is_a_mismatch", look: true, needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.slots(name, 3, 1))
		_, err := b.Store.(store.Looker).Look(t.ctx, b.lock(name))
		if !errors.Is(err, store.ErrMismatch) {
			t.Fatalf("look with another limit: %v, want ErrMismatch", err)
		}
	}},
}

// unmoved checks that an entry which was to last so long, and was last asked
// for before a call of pass, was not pushed since.
func (t *trial) unmoved(name string, id store.ID, lasts time.Duration) {
	t.Helper()
	if e, ok := t.entry(name, id); !ok || e.Expires > lasts-t.short+t.d.Tick {
		t.Fatalf("asked for %v more than %v ago, looked at since, and listed as %+v, %v", lasts, t.short, e, ok)
	}
}

func (c *client) look(claim store.Claim) store.Answer {
	c.t.Helper()
	a, err := c.Store.(store.Looker).Look(c.t.ctx, claim)
	if err != nil {
		c.t.Fatalf("look: %v, want an answer", err)
	}
	return a
}

// same checks that two refusals tell the same, but for the time that passed.
func (t *trial) same(look, ask store.Answer) {
	t.Helper()
	for _, a := range []*store.Answer{&look, &ask} {
		a.Until, a.From = 0, 0
		for i := range a.Holders {
			e := &a.Holders[i]
			e.Age, e.Expires, e.Ends = 0, 0, 0
		}
	}
	if !reflect.DeepEqual(look, ask) {
		t.Fatalf("look %+v\nask  %+v", look, ask)
	}
}
