package storetest

import (
	"github.com/holdfast-go/holdfast/store"
)

var blocks = []store.Promise{store.PromiseBlock}

func block(n int) func(*store.Claim) { return func(c *store.Claim) { c.Block = n } }

var blockPromises = []promise{
	{name: "Block_is_drawn_with_the_grant_and_is_the_holders_alone", needs: blocks, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for range 20 { // a store that draws fewer may pass by chance, because of the clock
			h := a.drawn(a.lock(name, block(t.most())), t.most())
			if r := b.refused(b.lock(name, try)); r.Last < h.end() {
				t.Fatalf("got %d as the newest token, although %d was drawn", r.Last, h.end())
			}
			h.release()
			next := b.take(b.lock(name))
			if next.Token <= h.end() {
				t.Fatalf("got token %d after the block %d … %d, want a larger one", next.Token, h.Token, h.end())
			}
			next.release()
		}
	}},
	{name: "Block_asked_for_again_is_the_same", needs: blocks, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.drawn(a.lock(name, block(10)), 10)
		again := a.drawn(h.claim, 10)
		more := h.claim
		more.Block = 20
		if third := a.drawn(more, 10); again.Token != h.Token || third.Token != h.Token {
			t.Fatalf("got tokens %d, %d and %d for one hold", h.Token, again.Token, third.Token)
		}
	}},
	{name: "Block_of_less_than_the_limit_is_one", needs: blocks, run: func(t *trial) {
		a, name := t.client(), t.name()
		a.drawn(a.lock(name), 1).release()
		a.drawn(a.read(name, block(10)), 1)
		a.drawn(a.upgradeable(name, block(10)), 1)
		name = t.name()
		a.drawn(a.lock(name, block(store.MaxBlock+1)), t.most()).release()
		if !t.lacks(store.PromiseSlots) {
			a.drawn(a.slots(name, 2, 1, block(10)), 1).release()
			a.drawn(a.slots(name, 2, 2, block(10)), 10)
		}
	}},
	{name: "Block_is_drawn_by_the_process_that_grants", needs: blocks, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.drawn(a.lock(name, block(5)), 5)
		w, r := b.lock(name, block(10)), b.read(name, block(10))
		b.refused(w)
		b.refused(r)
		h.release()
		first := b.drawn(w, 10)
		if first.Token <= h.end() {
			t.Fatalf("got token %d after the block %d … %d, want a larger one", first.Token, h.Token, h.end())
		}
		first.release()
		if second := b.drawn(r, 1); second.Token <= first.end() {
			t.Fatalf("got token %d after the block %d … %d, want a larger one", second.Token, first.Token, first.end())
		}
	}},
	{name: "Block_is_in_the_notification_that_grants", needs: blocks, watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		for _, n := range []int{1, 10, t.most()} {
			h := a.take(a.lock(name))
			w := b.lock(name, block(n))
			b.refused(w)
			h.release()
			k := b.woken(w) // compares the notification with the answer
			if k.n != n {
				t.Fatalf("got a block of %d, want %d", k.n, n)
			}
			k.release()
		}
	}},
	{name: "Block_used_is_never_drawn_again", needs: blocks, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for range 20 { // a store that counts wrongly may pass by chance, because of the clock
			h := a.drawn(a.lock(name, block(t.most())), t.most())
			h.Used = h.end() - 24
			h.release()
			next := b.take(b.lock(name))
			if next.Token <= h.Used {
				t.Fatalf("got token %d, although %d was used", next.Token, h.Used)
			}
			next.release()
		}
	}},
	{name: "Block_is_given_back_as_far_as_it_was_not_used", needs: append(blocks, store.PromiseInspect, store.PromiseMinHold), run: func(t *trial) {
		a, b := t.client(), t.client()
		for _, used := range []int64{0, 3, 8, 9} {
			name := t.name()
			h := a.drawn(a.lock(name, block(10), withMinHold(t.long)), 10)
			h.Used = h.Token + used
			h.release()
			if st, ok := t.state(name); !ok || st.Last != h.Used { // the minimum hold keeps it listed
				t.Fatalf("of the block %d … %d tokens up to %d were used, but the newest token is %d", h.Token, h.end(), h.Used, st.Last)
			}
			t.breaks(b, h, "because", true)
			b.take(b.lock(name)).release()
		}
	}},
	{name: "Block_with_no_or_a_wrong_number_used_is_not_given_back", needs: append(blocks, store.PromiseInspect, store.PromiseMinHold), run: func(t *trial) {
		a := t.client()
		for _, off := range []int64{-1, 10, 1000, 0} {
			h := a.drawn(a.lock(t.name(), block(10), withMinHold(t.long)), 10)
			if off != 0 {
				h.Used = h.Token + off
			}
			h.release()
			if st, _ := t.state(h.Name); st.Last != h.end() {
				t.Fatalf("reported %d as used in the block %d … %d, but the newest token is %d", h.Used, h.Token, h.end(), st.Last)
			}
		}
	}},
	{name: "Block_given_back_is_not_the_holds_any_more", needs: append(append(blocks, byToken...), store.PromiseInspect, store.PromiseMinHold), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.drawn(a.lock(name, block(10), withMinHold(t.long)), 10)
		h.Used = h.Token + 3
		h.release()
		by := *h
		by.Token += 4
		t.isLost(b.breakHold(&by, "because", true), "break with a token that was returned")
		by.Token--
		t.breaks(b, &by, "because", true)
		t.empty(name)
	}},
	{name: "Block_used_is_listed_as_the_largest_of_its_renewals", needs: append(blocks, store.PromiseInspect), run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.drawn(a.lock(name, block(10)), 10)
		h.uses(0, h.Token)
		h.uses(h.Token, h.Token)
		h.uses(h.Token+5, h.Token+5)
		h.uses(h.Token+2, h.Token+5)
		h.uses(0, h.Token+5)
		h.uses(h.Token+9, h.Token+9)
	}},
	{name: "Block_used_is_not_listed_as_what_was_not_drawn", needs: append(blocks, store.PromiseInspect), run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.drawn(a.lock(name, block(10)), 10)
		for _, off := range []int64{10, 11, 1000, -1} {
			h.uses(h.Token+off, h.Token)
		}
	}},
	{name: "a_renewal_may_name_another_owner", needs: inspect, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		who := store.Owner{Host: "web-3", PID: 1, Program: "x", Note: "the second, zürich"}
		h.Owner = who.Stored()
		h.renewed()
		h.Owner = ""
		h.renewed()
		if e, ok := t.entry(name, h.ID); !ok || e.Owner != who {
			t.Fatalf("the hold is listed as %+v, want the owner %+v", e, who)
		}
	}},
	{name: "the_owner_of_the_last_renewal_is_listed", needs: inspect, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		first := h.claim.Owner
		for _, who := range []string{store.Owner{Host: "web-3", PID: 1, Program: "x"}.Stored(), first} {
			h.Owner = who
			h.renewed()
			h.Owner = ""
			a.take(h.claim) // a repeated ask does not change the owner
			if e, ok := t.entry(name, h.ID); !ok || e.Owner.Stored() != who {
				t.Fatalf("the hold is listed as %+v, want the owner %q", e, who)
			}
		}
	}},
	{name: "a_hold_that_one_renewal_names_twice_has_the_later_owner", needs: inspect, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		others := []store.Hold{a.take(a.lock(t.name())).Hold, a.take(a.lock(t.name())).Hold}
		for pid := range 10 {
			who := store.Owner{Host: "web-3", PID: pid, Program: "x"}
			first, later := h.Hold, h.Hold
			first.Owner, later.Owner = store.Owner{Host: "not this"}.Stored(), who.Stored()
			for i, r := range a.Renew(t.ctx, []store.Hold{others[0], first, others[1], later}) {
				if r.Err != nil {
					t.Fatalf("hold %d: %v", i, r.Err)
				}
			}
			if e, ok := t.entry(name, h.ID); !ok || e.Owner != who {
				t.Fatalf("the hold is listed as %+v, want the owner %+v", e, who)
			}
		}
	}},
	{name: "Block_is_what_the_hold_may_be_broken_by", needs: append(append(blocks, byToken...), store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		for _, of := range []int64{0, 5, 9} {
			h := a.drawn(a.lock(name, block(10)), 10)
			for _, outside := range []int64{-1, 10, 1000} {
				by := *h
				by.Token += outside
				t.isLost(b.breakHold(&by, "because", true), "break with a token outside the block")
			}
			e, ok := t.entry(name, h.ID)
			if !ok || !e.Has(h.Token+of) || e.Has(h.Token-1) || e.Has(h.Token+10) {
				t.Fatalf("the hold is listed as %+v", e)
			}
			by := *h
			by.Token += of
			t.breaks(b, &by, "because", false)
			t.isLost(h.push(t.long), "renewal of a broken hold")
			h.release()
		}
	}},
	{name: "Block_of_a_hold_is_known_by_its_first_token_alone", needs: append(blocks, byToken...), run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.drawn(a.lock(name, block(10)), 10)
		for _, of := range []int64{1, 9, -1} {
			other := h.Hold
			other.Token += of
			t.isLost(a.renew(other), "renewal with another token of the block")
			t.isLost(a.Release(t.ctx, other), "release with another token of the block")
		}
		h.renewed()
		h.release()
	}},
}

// uses renews with a used token, and checks which one is then listed.
func (h *held) uses(used, want int64) {
	h.c.t.Helper()
	h.Used = used
	h.renewed()
	if e, ok := h.c.t.entry(h.Name, h.ID); !ok || e.Used != want || e.N != h.n || e.Token != h.Token {
		h.c.t.Fatalf("reported %d as used, but the hold is listed as %+v, want %d used", used, e, want)
	}
}

// drawn takes a claim that must be granted with a block of n.
func (c *client) drawn(claim store.Claim, n int) *held {
	c.t.Helper()
	h := c.take(claim)
	if h.n != n {
		c.t.Fatalf("got a block of %d, want %d", h.n, n)
	}
	return h
}

// end returns the last token of the block.
func (h *held) end() int64 { return h.Token + int64(h.n) - 1 }
