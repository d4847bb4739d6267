package storetest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var detaches = []store.Promise{store.PromiseDetach}

var adoptPromises = []promise{
	{name: "Adopt_gives_the_hold_another_id_and_the_token_stays", needs: detaches, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := a.lock(name)
		a.refused(w)
		k := b.adopt(h)
		t.entries(name, k.ID, w.ID)
		t.isLost(h.push(t.long), "renewal with the old id")
		t.isLost(a.Release(t.ctx, h.Hold), "release with the old id")
		a.withdraw(h.claim)
		k.renewed()
		if again := b.take(k.claim); again.Token != h.Token {
			t.Fatalf("asked again with the new id: got token %d, was %d", again.Token, h.Token)
		}
		a.refused(w)
		k.release()
		if next := a.take(w); next.Token <= h.Token {
			t.Fatalf("got token %d after %d, want a larger one", next.Token, h.Token)
		}
	}},
	{name: "Adopt_is_for_one_and_may_be_repeated", needs: detaches, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		id := b.proc.NewID()
		for range 3 { // the reply was lost
			if err := b.renew(h.as(id)); err != nil {
				t.Fatalf("adoption: %v", err)
			}
		}
		t.isLost(c.renew(h.as(c.proc.NewID())), "second adoption")
		t.entries(name, id)
		k := *h
		k.c, k.ID = b, id
		k.renewed()
		d := c.adopt(&k) // and adopted once more
		t.isLost(b.renew(h.as(id)), "a late copy of the first adoption")
		t.isLost(k.push(t.long), "renewal with the second id")
		d.release()
		t.isLost(b.renew(h.as(id)), "a late copy of the first adoption")
		t.isLost(c.renew(k.as(d.ID)), "a late copy of the second adoption")
		t.empty(name)
	}},
	{name: "Adopt_that_comes_too_late_is_lost_and_appends_nothing", needs: detaches, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.expired(h.claim)
		late := h.as(b.proc.NewID())
		late.TTL = t.long // otherwise its own session may end before the answer
		t.isLost(b.renew(late), "adoption of an expired hold")
		t.entries(name)
		h = a.take(a.lock(name))
		h.release()
		t.isLost(b.renew(h.as(b.proc.NewID())), "adoption of a released hold")
		t.empty(name)
	}},
	{name: "Adopt_of_what_is_not_this_hold_is_lost", needs: detaches, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		for _, token := range []int64{0, 1, h.Token} {
			waiting := store.Hold{Name: name, ID: w.ID, Token: token, TTL: t.long, NewID: b.proc.NewID()}
			t.isLost(b.renew(waiting), "adoption of a waiting entry")
		}
		if !t.lacks(store.PromiseMatch) {
			for _, off := range []int64{-1, 1} {
				wrong := h.as(b.proc.NewID())
				wrong.Token += off
				t.isLost(b.renew(wrong), "adoption with another token")
			}
		}
		t.entries(name, h.ID, w.ID)
		h.release()
		b.take(w)
	}},
	{name: "Adopt_of_a_broken_hold_is_lost_and_the_reason_is_returned", needs: append(detaches, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		t.breaks(b, h, "because", false)
		err := b.renew(h.as(b.proc.NewID()))
		var lost *store.LostError
		if !errors.As(err, &lost) || lost.Reason != "because" {
			t.Fatalf("adoption of a broken hold: got %v, want a LostError with the reason", err)
		}
		t.entries(name, h.ID)
		h.release()
	}},
	{name: "Adopt_pushes_the_expiry", needs: detaches, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		id := b.proc.NewID()
		hold := h.as(id)
		hold.TTL = t.long
		t.soonEnough(b.renew(hold) == nil)
		k := &held{c: b, claim: h.claim, Hold: hold, before: h.before}
		k.ID, k.NewID, k.claim.ID, k.claim.TTL = id, store.ID{}, id, t.long
		t.pass()
		a.refused(a.lock(name, try))
		k.renewed()
		k.release()
	}},
	{name: "Detached_a_hold_belongs_to_no_process", needs: detaches, run: func(t *trial) {
		b, name := t.client(), t.name()
		owner := &client{t: t, Store: t.open(t.T), proc: store.NewProcess()}
		h := owner.take(owner.lock(name))
		ref := owner.detach(h)
		t.isLost(h.push(t.long), "renewal of a detached hold")
		t.isLost(owner.Release(t.ctx, h.Hold), "release of a detached hold")
		if err := owner.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		b.refused(b.lock(name, try)) // its process has ended
		if e, ok := t.entry(name, ref.ID); ok && (e.Expires <= 0 || e.Token != h.Token) {
			t.Fatalf("the detached hold is listed as %+v", e)
		}
		ref.c = b
		k := b.adopt(ref)
		t.entries(name, k.ID)
		k.renewed()
		k.release()
		t.empty(name)
	}},
	{name: "Detached_a_hold_ends_with_its_TTL", needs: detaches, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		ref := h.as(store.Process{}.NewID())
		t.soonEnough(a.renew(ref) == nil)
		b.wait(b.lock(name)).release()
		late := store.Hold{Name: name, ID: ref.NewID, Token: ref.Token, TTL: t.long, NewID: b.proc.NewID()}
		t.isLost(b.renew(late), "late adoption")
		t.empty(name)
	}},
	{name: "Adopt_keeps_the_rest_of_the_hold", needs: append(detaches, store.PromiseInspect, store.PromiseMinHold), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long), owned(store.Owner{Host: "web-3", PID: 1, Program: "x"})))
		was, _ := t.entry(name, h.ID)
		k := b.adopt(h)
		e, ok := t.entry(name, k.ID)
		if !ok || e.Weight != was.Weight || e.Token != was.Token || e.N != was.N || e.Owner != was.Owner || e.Age < was.Age || e.UpgradeToken != was.UpgradeToken {
			t.Fatalf("the adopted hold is listed as %+v, was %+v", e, was)
		}
		k.release()
		a.refused(a.lock(name, try)) // the minimum hold still counts from the grant
	}},
	{name: "Adopt_takes_a_pending_upgrade_along", needs: append(detaches, store.PromiseUpgrade), watch: true, run: func(t *trial) {
		a, b, c, name := t.client().watch(), t.client().watch(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := c.take(c.read(name))
		u.pending(1)
		k := b.adopt(u)
		k.tells(store.Upgradeable, store.Full)
		r.release()
		t.until("the adopter has its notification", func() bool { return len(b.got(k.ID)) > 0 })
		k.tells(store.Full, store.Full)
		k.back(2)
		k.stale(1, store.Full)
		if notifications := a.got(u.ID); len(notifications) != 0 {
			t.Fatalf("got notifications %+v for an id that no longer exists", notifications)
		}
	}},
}

// as returns the hold for a renewal under another id.
func (h *held) as(id store.ID) store.Hold {
	hold := h.Hold
	hold.NewID = id
	return hold
}

// adopt makes the hold one of c's.
func (c *client) adopt(h *held) *held { c.t.Helper(); return c.goOn(h, c.proc.NewID()) }

// detach gives the hold an id of no process.
func (c *client) detach(h *held) *held { c.t.Helper(); return c.goOn(h, store.Process{}.NewID()) }

func (c *client) goOn(h *held, id store.ID) *held {
	c.t.Helper()
	if err := c.renew(h.as(id)); err != nil {
		c.t.Fatalf("renewal with another id: %v", err)
	}
	k := *h
	k.c, k.ID, k.claim.ID = c, id, id
	return &k
}

// unansweredAdoption: an adoption is neither answered nor repeated, and the release that gives it up does not arrive,
// while its process holds something else. The adopted hold ends with its TTL.
func unansweredAdoption(t *trial, c Linked, after int) {
	if why, lacks := t.d.Lacks[store.PromiseDetach]; lacks {
		t.Skipf("the store lacks %q: %s", store.PromiseDetach, why)
	}
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	defer t.keep(here, proc, there, other)()
	claim := t.lasting(other, t.name(), t.lastsLong())
	began := store.Now()
	h := store.Hold{Name: claim.Name, ID: claim.ID, Token: t.granted(there, claim).Token, TTL: claim.TTL, NewID: store.Process{}.NewID()}
	t.until("the hold is detached", func() bool {
		err := there.Renew(t.ctx, []store.Hold{h})[0].Err
		if errors.Is(err, store.ErrLost) && t.expires(claim, began) {
			panic(tooSlow)
		}
		if err != nil && store.Definite(err) {
			t.Fatalf("detach: %v", err)
		}
		return err == nil
	})
	h.ID, h.NewID = h.NewID, proc.NewID()
	link.MuteAfter(after)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	adopted := make(chan struct{})
	go func() {
		defer close(adopted)
		here.Renew(ctx, []store.Hold{h})
	}()
	t.fallSilent(link, after, adopted)
	link.Reset()
	cancel() // some drivers ignore a reset
	<-adopted
	t.isFree(there, other, h.Name)
}
