package storetest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var releasePromises = []promise{
	{name: "ReleaseAll_gives_back_what_it_is_given_and_no_more", run: func(t *trial) {
		a, b := t.client(), t.client()
		var held []*held
		for range 10 {
			held = append(held, a.take(a.lock(t.name())))
		}
		a.releaseAll(held[:8]...)
		for i, h := range held {
			if i < 8 {
				t.entries(h.Name)
				b.take(b.lock(h.Name, try)).release()
				continue
			}
			h.renewed()
			b.refused(b.lock(h.Name, try))
		}
		a.releaseAll(held[8:]...)
		if out := a.ReleaseAll(t.ctx, nil); len(out) != 0 {
			t.Fatalf("no holds: got %v", out)
		}
	}},
	{name: "ReleaseAll_has_an_answer_for_each_and_one_does_not_touch_another", run: func(t *trial) {
		a, b := t.client(), t.client()
		mine, over, theirs := a.take(a.lock(t.name())), a.take(a.lock(t.name())), b.take(b.lock(t.name()))
		over.release()
		again := a.take(a.lock(t.name()))
		waits := a.lock(theirs.Name)
		a.refused(waits)
		last := a.take(a.lock(t.name()))
		wrong := theirs.Hold
		wrong.ID = a.proc.NewID()
		batch := []store.Hold{
			mine.Hold, over.Hold, {Token: 1}, wrong, {Name: waits.Name, ID: waits.ID},
			{Name: t.name(), ID: a.proc.NewID()}, again.Hold, again.Hold, last.Hold,
		}
		out := a.ReleaseAll(t.ctx, batch)
		if len(out) != len(batch) {
			t.Fatalf("got %d answers for %d holds", len(out), len(batch))
		}
		for i, want := range []error{nil, store.ErrLost, store.ErrInvalid, store.ErrLost, nil, nil} {
			ok := errors.Is(out[i], want)
			if want == store.ErrInvalid { // any definite error will do: there is no such name either
				ok = store.Definite(out[i])
			}
			if !ok {
				t.Errorf("hold %d of the batch: got %v, want %v", i, out[i], want)
			}
		}
		// If a hold is in the batch twice, one of the two releases it, and the other is lost.
		if first, second := out[6], out[7]; (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), store.ErrLost) {
			t.Errorf("the same hold twice: got %v and %v, want nil and ErrLost", first, second)
		}
		if out[8] != nil {
			t.Errorf("the last: got %v, want nil", out[8])
		}
		theirs.renewed()
		t.entries(theirs.Name, theirs.ID)
		theirs.release()
		for _, h := range []*held{mine, theirs, again, last} {
			b.take(b.lock(h.Name, try)).release()
		}
	}},
	{name: "ReleaseAll_compares_the_tokens", needs: byToken, run: func(t *trial) {
		a, b := t.client(), t.client()
		one, two := a.take(a.lock(t.name())), a.take(a.lock(t.name()))
		wrong := one.Hold
		wrong.Token--
		out := a.ReleaseAll(t.ctx, []store.Hold{wrong, two.Hold})
		t.isLost(out[0], "release with another token")
		if out[1] != nil {
			t.Fatalf("release of the other: %v", out[1])
		}
		one.renewed()
		b.refused(b.lock(one.Name, try))
		one.release()
		t.empty(two.Name)
	}},
	{name: "ReleaseAll_lets_in_those_who_wait", run: func(t *trial) {
		a, b := t.client(), t.client()
		var held []*held
		var waiting []store.Claim
		for i := range 3 { // more would take a busy machine longer than a position lasts
			h := a.take(a.read(t.name()))
			held = append(held, h)
			if i%2 == 0 { // two holds of one name, with one waiter
				held = append(held, a.take(a.read(h.Name)))
			}
			w := b.lock(h.Name)
			b.refused(w)
			waiting = append(waiting, w)
		}
		a.releaseAll(held...)
		for _, w := range waiting {
			t.until("the waiter is granted", func() bool { return b.ask(w).Granted })
			b.take(w).release()
			t.empty(w.Name)
		}
	}},
	{name: "ReleaseAll_wakes_the_next_of_each_name_in_order", needs: order, watch: true, run: func(t *trial) {
		a, b, c := t.client(), t.client().watch(), t.client().watch()
		var held []*held
		var first, second []store.Claim
		for range 3 { // more would take a busy machine longer than a position lasts
			h := a.take(a.lock(t.name()))
			w1, w2 := b.lock(h.Name), c.lock(h.Name)
			b.refused(w1)
			c.refused(w2)
			held, first, second = append(held, h), append(first, w1), append(second, w2)
		}
		a.releaseAll(held...)
		for i, w := range first {
			h := b.woken(w)
			if early := c.got(second[i].ID); len(early) != 0 && !t.lacks(store.PromiseNotificationToken) {
				t.Fatalf("got notifications %+v for a claim that still waits", early)
			}
			if h.Token <= held[i].Token && !t.lacks(store.PromiseTokens) {
				t.Fatalf("got token %d after %d, want a larger one", h.Token, held[i].Token)
			}
			h.release()
			c.woken(second[i]).release()
		}
	}},
	{name: "ReleaseAll_keeps_minimum_holds", needs: minHold, run: func(t *trial) {
		a, b := t.client(), t.client()
		kept, free := a.take(a.lock(t.name(), withMinHold(t.long))), a.take(a.lock(t.name()))
		kept.renewed() // which shows the token
		a.releaseAll(kept, free)
		b.refused(b.lock(kept.Name, try))
		t.empty(free.Name)
	}},
	{name: "ReleaseAll_says_nothing_definite_once_its_context_has_ended", run: func(t *trial) {
		a := t.client()
		one, two := a.take(a.lock(t.name())), a.take(a.lock(t.name()))
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		for i, err := range a.ReleaseAll(ctx, []store.Hold{one.Hold, two.Hold}) {
			if store.Definite(err) {
				t.Errorf("hold %d: %v", i, err)
			}
		}
	}},
}

// releaseAll releases holds that must not be lost, in one call.
func (c *client) releaseAll(all ...*held) {
	c.t.Helper()
	var batch []store.Hold
	for _, h := range all {
		batch = append(batch, h.Hold)
	}
	out := c.ReleaseAll(c.t.ctx, batch)
	if len(out) != len(batch) {
		c.t.Fatalf("got %d answers for %d holds", len(out), len(batch))
	}
	for i, err := range out {
		if err != nil {
			c.t.Fatalf("release of hold %d of %d: %v", i, len(out), err)
		}
	}
}
