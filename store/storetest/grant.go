package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var grantPromises = []promise{
	{name: "a_free_name_is_granted_at_once", run: func(t *trial) {
		c := t.client()
		c.take(c.lock(t.name(), try)).release()
		c.take(c.lock(t.name())).release()
		c.take(c.read(t.name(), try)).release()
	}},
	{name: "a_held_name_refuses_a_try", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, try))
		b.refused(b.lock(name, try))
		b.refused(b.read(name, try))
		a.refused(a.lock(name, try)) // another claim of the same process is refused too
		h.renewed()
	}},
	{name: "a_refused_try_leaves_no_entry", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		for range 3 {
			b.refused(b.lock(name, try))
		}
		t.entries(name, h.ID)
		if r := b.refused(b.lock(name, try)); r.Waiting != 0 {
			t.Fatalf("got %d waiters, want none", r.Waiting)
		}
		h.release()
		t.empty(name)
	}},
	{name: "a_held_name_leaves_other_names_alone", run: func(t *trial) {
		a, b, one, two := t.client(), t.client(), t.name(), t.name()
		h := a.take(a.lock(one))
		b.refused(b.lock(one))
		k := b.take(b.lock(two, try))
		h.release()
		k.renewed()
		k.release()
	}},
	{name: "a_release_takes_effect_at_once", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for range 5 {
			h := a.take(a.lock(name, try))
			b.refused(b.lock(name, try))
			h.release()
			h = b.take(b.lock(name, try))
			a.refused(a.lock(name, try))
			h.release()
		}
	}},
	{name: "a_waiter_is_granted_after_the_release", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		b.refused(w)
		h.release()
		k := b.take(w)
		a.refused(a.lock(name, try))
		k.release()
		t.empty(name)
	}},
	{name: "nothing_is_left_after_the_last_release", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		first, second := a.take(a.read(name)), b.take(b.read(name))
		w := b.lock(name)
		b.refused(w)
		first.release()
		second.release()
		b.take(w).release()
		t.empty(name)
	}},
	{name: "a_refusal_names_the_holders", needs: []store.Promise{store.PromiseHolders}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		who := store.Owner{Host: "web-3", PID: 4711, Program: "backup.sh", Note: "nightly, zürich", Space: "4026531836"}
		h := a.take(a.read(name, owned(who)))
		first := b.refused(b.lock(name))
		if first.Holding != 1 || first.Waiting != 0 {
			t.Fatalf("got %d holders and %d waiters, want 1 and 0", first.Holding, first.Waiting)
		}
		e := first.Holders[0]
		if e.ID != h.ID || e.Weight != 1 || !e.Granted || e.Token != h.Token || e.Broken != "" {
			t.Fatalf("got holder %+v, want id %v and token %d", e, h.ID, h.Token)
		}
		if e.Owner != who {
			t.Fatalf("got owner %+v, want %+v", e.Owner, who)
		}
		took := time.Since(h.before) + t.d.Tick
		if e.Age < 0 || e.Age > took {
			t.Fatalf("got age %v, want at most the time since the ask, %v", e.Age, took)
		}
		if e.Expires > t.long+t.d.Tick || e.Expires < t.long-took-t.d.Tick-t.slack(t.long) {
			t.Fatalf("the hold expires in %v, granted for %v less than %v ago", e.Expires, t.long, took)
		}
		if e.Ends != e.Expires {
			t.Fatalf("it ends in %v, and expires in %v: without MinHold and LockDelay both are equal", e.Ends, e.Expires)
		}
		if second := b.refused(b.lock(name)); second.Holding != 1 || second.Waiting != 1 {
			t.Fatalf("got %d holders and %d waiters, want 1 and 1", second.Holding, second.Waiting)
		}
	}},
	{name: "a_refusal_names_at_most_eight_holders", needs: []store.Promise{store.PromiseHolders}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		ids := map[store.ID]bool{}
		for range store.MaxHolders + 3 {
			ids[a.take(a.read(name)).ID] = true
		}
		r := b.refused(b.lock(name, try))
		if r.Holding != len(ids) || len(r.Holders) != store.MaxHolders {
			t.Fatalf("got %d of %d holders, want %d of %d", len(r.Holders), r.Holding, store.MaxHolders, len(ids))
		}
		for _, e := range r.Holders {
			if !ids[e.ID] {
				t.Fatalf("holder %v: unknown, or reported twice", e.ID)
			}
			delete(ids, e.ID)
		}
	}},
	{name: "a_refusal_has_the_end_of_the_first_obstacle", needs: []store.Promise{store.PromiseUntil}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		sooner := t.ticks(max(t.long/2, t.d.MinTTL))
		first := a.take(a.read(name))
		early := a.take(a.read(name, ttl(sooner)))
		r := b.refused(b.lock(name, try))
		cut := 2 * t.d.Tick // the server's time is cut to ticks at the grant and at the ask
		if passed := time.Since(early.before); r.Until > sooner+t.d.Tick || r.Until < sooner-passed-cut-t.slack(sooner) {
			t.Fatalf("got until %v, want that of the hold that expires in %v, less the %v that passed", r.Until, sooner, passed)
		}
		if t.lacks(store.PromisePositionTTL) {
			return
		}
		w := b.lock(name) // a position is shorter than that hold
		b.refused(w)
		r = a.refused(a.lock(name, try))
		// With several nodes, one may keep the hold only for as long as a position, until it has
		// accepted it.
		if passed := time.Since(first.before); r.Until > w.PositionTTL+t.d.Tick || r.Until < min(w.PositionTTL, sooner)-passed-cut {
			t.Fatalf("got until %v, want that of the position ahead, kept for %v, less the %v that passed", r.Until, w.PositionTTL, passed)
		}
	}},
	{name: "the_least_and_the_greatest_ttl_are_granted", needs: deadlines, run: func(t *trial) {
		c := t.client()
		for _, d := range []time.Duration{t.d.MinTTL, t.ticks(t.d.MinTTL + 1), t.d.MaxTTL} {
			if d <= t.d.MaxTTL {
				c.take(c.lock(t.name(), ttl(d))) // take checks the TTL of the answer
			}
		}
	}},
	{name: "an_ask_with_an_ended_context_can_be_repeated", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		claim := a.lock(name)
		r, err := a.Ask(t.ended(), claim)
		t.indeterminate(err, "ask with an ended context: "+fmt.Sprint(r))
		h := a.take(claim)
		t.entries(name, h.ID)
		h.release()
		b.take(b.lock(name, try)).release()
	}},
	{name: "a_renewal_with_an_ended_context_can_be_repeated", run: func(t *trial) {
		a, one, two := t.client(), t.name(), t.name()
		h, k := a.take(a.lock(one)), a.take(a.lock(two))
		out := a.Renew(t.ended(), []store.Hold{h.Hold, k.Hold})
		if len(out) != 2 {
			t.Fatalf("got %d renewals for two holds", len(out))
		}
		t.indeterminate(out[0].Err, "renew with an ended context")
		t.indeterminate(out[1].Err, "renew with an ended context")
		h.renewed()
		k.renewed()
	}},
	{name: "a_release_with_an_ended_context_can_be_repeated", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.indeterminate(a.Release(t.ended(), h.Hold), "release with an ended context")
		if err := a.Release(t.ctx, h.Hold); err != nil && !errors.Is(err, store.ErrLost) {
			t.Fatalf("release again: got %v, want nil, or ErrLost if it was done before", err)
		}
		b.take(b.lock(name, try)).release()
	}},
}

// ended returns a context that has ended.
func (t *trial) ended() context.Context {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	return ctx
}

func (t *trial) indeterminate(err error, what string) {
	t.Helper()
	if err == nil || store.Definite(err) {
		t.Fatalf("%s: got %v, want an indeterminate error", what, err)
	}
}
