package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

var (
	inspect = []store.Promise{store.PromiseInspect}
	reasons = []store.Promise{store.PromiseInspect, store.PromiseReason}
)

var breakPromises = []promise{
	{name: "a_broken_hold_cannot_be_renewed_and_the_reason_is_returned", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "disk full, zürich", false)
		err := h.push(t.long)
		var lost *store.LostError
		if !errors.As(err, &lost) || lost.Reason != "disk full, zürich" {
			t.Fatalf("renewal of a broken hold: got %v, want a LostError with the reason", err)
		}
	}},
	{name: "an_ask_for_a_broken_hold_returns_the_reason", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "disk full, zürich", false)
		_, err := a.Ask(t.ctx, h.claim)
		var lost *store.LostError
		if !errors.As(err, &lost) || lost.Reason != "disk full, zürich" {
			t.Fatalf("ask of a broken hold: got %v, want a LostError with the reason", err)
		}
	}},
	{name: "a_broken_hold_is_listed_with_the_reason", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		reason := strings.Repeat("ü", store.MaxReason/2)
		t.breaks(b, h, reason, false)
		e, ok := t.entry(name, h.ID)
		if !ok || e.Broken != reason || !e.Granted || e.Token != h.Token || e.Expires <= 0 {
			t.Fatalf("listed as %+v, %v, want a broken hold that has not expired, with the reason", e, ok)
		}
		if r := b.refused(b.lock(name, try)); r.Holders[0].Broken != reason {
			t.Fatalf("reported as %+v, want broken, with the reason", r.Holders[0])
		}
	}},
	{name: "a_broken_hold_blocks_until_it_is_released", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		t.breaks(b, h, "because", false)
		t.isLost(h.push(t.long), "renew of a broken hold")
		b.refused(w)
		h.release()
		b.take(w).release()
		t.empty(name)
	}},
	{name: "a_broken_hold_blocks_until_it_expires", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		err := b.breakHold(h, "because", false)
		if err != nil { // it had expired
			t.isLost(err, "break")
		}
		next := b.wait(b.lock(name))
		t.least(h, t.short, next)
	}},
	{name: "a_break_of_a_minimum_hold_ends_it", needs: []store.Promise{store.PromiseInspect, store.PromiseMinHold}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long)))
		h.release()
		b.refused(b.lock(name, try))
		t.breaks(b, h, "because", false)
		b.take(b.lock(name, try)).release()
		h = a.take(a.lock(name, withMinHold(t.long)))
		h.renewed()
		t.breaks(b, h, "because", false)
		h.release()
		t.empty(name)
	}},
	{name: "a_break_leaves_the_lock_delay", needs: []store.Promise{store.PromiseInspect, store.PromiseLockDelay}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withLockDelay(t.long), ttl(t.short)))
		t.expired(h.claim)
		t.breaks(b, h, "because", false)
		b.refused(b.lock(name, try))
		t.breaks(b, h, "because", true)
		b.take(b.lock(name, try)).release()
		t.empty(name)
	}},
	{name: "a_break_now_admits_the_next_waiter_at_once", needs: inspect, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		t.breaks(c, h, "because", true)
		k := b.take(w)
		if k.Token <= h.Token {
			t.Fatalf("got token %d after %d, want a larger one", k.Token, h.Token)
		}
		t.isLost(h.push(t.long), "renew of a removed hold")
		t.isLost(a.Release(t.ctx, h.Hold), "release of a removed hold")
		a.withdraw(h.claim)
		k.renewed()
		c.refused(c.lock(name, try))
		t.entries(name, k.ID)
		k.release()
		t.empty(name)
	}},
	{name: "a_break_now_after_a_break_admits_the_next_waiter", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "", false)
		t.breaks(b, h, "twice", false)
		b.refused(b.lock(name, try))
		t.breaks(b, h, "now", true)
		t.isLost(b.breakHold(h, "gone", true), "break of a removed hold")
		b.take(b.lock(name, try)).release()
		t.empty(name)
	}},
	{name: "a_renewal_of_a_hold_broken_now_returns_the_reason", needs: reasons, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "disk full, zürich", true)
		k := b.take(b.lock(name, try))
		for range 2 { // an answer may be lost
			IsLostFor(t, "disk full, zürich", h.push(t.long), "renew")
		}
		_, err := a.Ask(t.ctx, h.claim)
		IsLostFor(t, "disk full, zürich", err, "ask")
		k.renewed()
		t.entries(name, k.ID)
	}},
	{name: "a_hold_broken_now_is_listed_until_it_is_given_back", needs: reasons, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		reason := strings.Repeat("ü", store.MaxReason/2)
		t.breaks(b, h, reason, true)
		e, ok := t.entry(name, h.ID)
		if !ok || !e.Freed || e.Broken != reason || !e.Granted || e.Token != h.Token || e.Expires <= 0 {
			t.Fatalf("listed as %+v, %v, want a freed hold, with the reason", e, ok)
		}
		t.isLost(b.breakHold(h, "again", true), "break of a freed hold")
		t.isLost(b.breakHold(h, "again", false), "break of a freed hold")
		t.isLost(a.Release(t.ctx, h.Hold), "release of a freed hold")
		if e, ok := t.entry(name, h.ID); ok {
			t.Fatalf("released, but listed as %+v", e)
		}
		t.empty(name)
	}},
	{name: "a_hold_broken_now_is_listed_until_it_expires", needs: reasons, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		if err := b.breakHold(h, "because", true); err != nil { // it had expired
			t.isLost(err, "break")
		}
		t.until("the hold is no longer listed", func() bool {
			_, there := t.entry(name, h.ID)
			return !there
		})
	}},
	{name: "a_hold_broken_now_blocks_nothing", needs: append(reasons, store.PromiseSlots), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "because", true)
		one := b.take(b.slots(name, 2, 1, try)) // now it can be a semaphore
		two := b.take(b.slots(name, 2, 1, try))
		r := a.refused(a.slots(name, 2, 1, try))
		if r.Holding != 2 || len(r.Holders) != 2 || r.Holders[0].ID != one.ID || r.Holders[1].ID != two.ID {
			t.Fatalf("refused because of %+v, want the two holders", r)
		}
		one.release()
		two.release()
		t.empty(name)
		a.withdraw(h.claim)
		if e, ok := t.entry(name, h.ID); ok {
			t.Fatalf("withdrawn, but listed as %+v", e)
		}
	}},
	{name: "a_hold_broken_now_keeps_nothing_by_its_delay_or_minimum", needs: append(reasons, store.PromiseMinHold, store.PromiseLockDelay), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long), withLockDelay(t.long)))
		h.renewed()
		t.breaks(b, h, "because", true)
		b.take(b.lock(name, try)).release()
		t.isLost(a.Release(t.ctx, h.Hold), "release of a freed hold")
		t.empty(name)
	}},
	{name: "a_break_with_a_wrong_id_is_lost_and_breaks_nothing", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		t.isLost(a.breakHold(&held{c: a, Hold: store.Hold{Name: name, ID: a.proc.NewID(), Token: 1}}, "because", true), "break of a name not in use")
		t.entries(name)
		h := a.take(a.lock(name))
		for _, now := range []bool{false, true} {
			wrong := *h
			wrong.ID = b.proc.NewID()
			t.isLost(b.breakHold(&wrong, "because", now), "break with another id")
		}
		h.renewed()
		h.release()
		t.isLost(b.breakHold(h, "because", true), "break after the release")
		t.empty(name)
	}},
	{name: "a_break_with_a_wrong_token_is_lost_and_breaks_nothing", needs: append(byToken, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		for _, now := range []bool{false, true} {
			for _, token := range []int64{0, 1, h.Token - 1, h.Token + 1} {
				wrong := *h
				wrong.Token = token
				t.isLost(b.breakHold(&wrong, "because", now), "break with another token")
			}
		}
		h.renewed()
		h.release()
	}},
	{name: "a_break_of_a_waiting_entry_is_lost_and_breaks_nothing", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		last := b.refused(w).Last
		for _, now := range []bool{false, true} {
			for _, token := range []int64{0, last, last + 1} {
				waiting := held{c: b, Hold: store.Hold{Name: name, ID: w.ID, Token: token}}
				t.isLost(b.breakHold(&waiting, "because", now), "break of a waiting entry")
			}
		}
		t.entries(name, h.ID, w.ID)
		h.release()
		b.take(w).release()
	}},
	{name: "a_list_shows_what_is_held_and_what_waits", needs: inspect, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		who := store.Owner{Host: "web-3", PID: 1, Program: "x", Note: "{\"a\": \\ 'b' 🔒}"}
		one, two := a.take(a.read(name)), b.take(b.read(name, owned(who)))
		w := a.lock(name)
		a.refused(w)
		t.entries(name, one.ID, two.ID, w.ID)
		st, _ := t.state(name)
		if len(st.Entries) != 3 {
			t.Fatalf("listed as %+v, want three entries", st)
		}
		if st.Limit != store.Full || st.Last < two.Token {
			t.Fatalf("got limit %d and newest token %d, want %d and at least %d", st.Limit, st.Last, int64(store.Full), two.Token)
		}
		e1, e2, e3 := st.Entries[0], st.Entries[1], st.Entries[2]
		if !e1.Granted || e1.Token != one.Token || e1.Weight != 1 || !e2.Granted || e2.Token != two.Token || e2.Owner != who {
			t.Fatalf("got holds %+v and %+v", e1, e2)
		}
		if e3.Granted || e3.Token != 0 || e3.Weight != store.Full || e3.Expires > w.PositionTTL+t.d.Tick && !t.lacks(store.PromisePositionTTL) || e3.Expires <= 0 || e3.Ends != e3.Expires {
			t.Fatalf("got waiter %+v", e3)
		}
	}},
	{name: "a_list_of_all_has_each_name_in_use_once", needs: inspect, run: func(t *trial) {
		a, held, free := t.client(), t.name(), t.name()
		h := a.take(a.lock(held))
		a.take(a.lock(free)).release()
		in := a.Store.(store.Inspector)
		var seen int
		for st, err := range in.List(t.ctx, "") {
			if err != nil {
				continue // a name of another test, in the same backing
			}
			switch st.Name {
			case held:
				seen++
				if len(st.Entries) != 1 || st.Entries[0].ID != h.ID {
					t.Fatalf("got entries %+v", st.Entries)
				}
			case free:
				t.Fatal("a free name is listed")
			}
		}
		if seen != 1 {
			t.Fatalf("the held name is listed %d times, want once", seen)
		}
		for range in.List(t.ctx, "") {
			break // stopping early is allowed
		}
	}},
}

func (c *client) breakHold(h *held, reason string, now bool) error {
	c.t.Helper()
	in, ok := c.Store.(store.Inspector)
	if !ok {
		c.t.Fatalf("the store is no Inspector, but its Description does not say that it lacks %q", store.PromiseInspect)
	}
	return in.BreakHold(c.t.ctx, store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: reason, Now: now})
}

// breaks breaks a hold that must exist.
func (t *trial) breaks(c *client, h *held, reason string, now bool) {
	t.Helper()
	if err := c.breakHold(h, reason, now); err != nil {
		t.Fatalf("break: %v", err)
	}
}

// repeatedBreak: an operator breaks a hold with Now, and gets no answer. It repeats the break until it is
// answered: then the owner's next renewal is lost.
func repeatedBreak(t *trial, c Linked, after int) {
	if why, lacks := t.d.Lacks[store.PromiseInspect]; lacks {
		t.Skipf("the store lacks %q: %s", store.PromiseInspect, why)
	}
	here, _, proc := t.linked(c)
	there, link, _ := t.linked(c)
	claim := t.lasting(proc, t.name(), t.lastsLong())
	h := store.Hold{Name: claim.Name, ID: claim.ID, Token: t.granted(here, claim).Token, TTL: claim.TTL}
	renewed := func() (err error) {
		t.until("a renewal is answered", func() bool {
			ctx, cancel := t.once()
			defer cancel()
			err = here.Renew(ctx, []store.Hold{h})[0].Err
			return err == nil || store.Definite(err)
		})
		return err
	}
	if renewed() != nil {
		panic(tooSlow) // the hold was lost before the break
	}
	operator := there.(store.Inspector)
	MustList(t, operator, h.Name) // so that it has done its one-time work
	link.MuteAfter(after)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	b := store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Now: true}
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		operator.BreakHold(ctx, b)
	}()
	t.fallSilent(link, after, broken)
	link.Reset()
	cancel() // some drivers ignore a reset
	<-broken
	t.until("the break is answered", func() bool {
		ctx, cancel := t.once()
		defer cancel()
		err := operator.BreakHold(ctx, b)
		return err == nil || store.Definite(err)
	})
	t.isLost(renewed(), "renewal of a removed hold")
}
