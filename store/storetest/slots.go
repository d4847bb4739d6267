package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var slots = []store.Promise{store.PromiseSlots}

var slotPromises = []promise{
	{name: "a_semaphore_grants_its_number_of_slots_and_no_more", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		var all []*held
		for range 3 {
			all = append(all, a.take(a.slots(name, 3, 1, try)))
		}
		b.refused(b.slots(name, 3, 1, try))
		a.refused(a.slots(name, 3, 1, try))
		all[1].release()
		all[1] = b.take(b.slots(name, 3, 1, try))
		b.refused(b.slots(name, 3, 1, try))
		for _, h := range all {
			h.release()
		}
		t.empty(name)
	}},
	{name: "weights_fill_a_semaphore_exactly", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		two := a.take(a.slots(name, 5, 2, try))
		b.refused(b.slots(name, 5, 4, try))
		b.take(b.slots(name, 5, 3, try))
		b.refused(b.slots(name, 5, 1, try))
		two.release()
		b.refused(b.slots(name, 5, 3, try))
		b.take(b.slots(name, 5, 2, try))
		b.refused(b.slots(name, 5, 5, try))
	}},
	{name: "the_largest_semaphore_fills_exactly", needs: slots, run: func(t *trial) {
		c, name := t.client(), t.name()
		c.take(c.slots(name, store.MaxSlots, store.MaxSlots-1, try))
		c.refused(c.slots(name, store.MaxSlots, 2, try))
		c.take(c.slots(name, store.MaxSlots, 1, try))
		c.refused(c.slots(name, store.MaxSlots, 1, try))
	}},
	{name: "a_wide_claim_is_not_passed_by_narrow_ones", needs: slots, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		three := a.take(a.slots(name, 4, 3))
		wide, narrow := b.slots(name, 4, 2), c.slots(name, 4, 1)
		b.refused(wide)
		c.refused(narrow) // one slot is free
		c.refused(c.slots(name, 4, 1, try))
		three.release()
		b.take(wide)
		c.take(narrow)
		c.take(c.slots(name, 4, 1, try))
		c.refused(c.slots(name, 4, 1, try))
	}},
	{name: "another_limit_is_refused_naming_both", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.slots(name, 3, 3))
		other := []store.Claim{b.lock(name), b.read(name, try)}
		if t.lacks(store.PromiseTotals) {
			other = append(other, b.slots(name, 2, 1), b.slots(name, 2, 1, try), b.slots(name, 4, 1))
		}
		for _, claim := range other {
			t.mismatch(b, claim, 3)
		}
		w := b.slots(name, 3, 1)
		b.refused(w)
		t.mismatch(b, b.read(name), 3)
		t.entries(name, h.ID, w.ID)
		h.release()
		t.mismatch(a, a.lock(name, try), 3)
		b.take(w).release()
		a.take(a.slots(name, 2, 1, try)).release()
		r := a.take(a.read(name, try))
		t.mismatch(b, b.slots(name, 3, 1, try), store.Full)
		r.release()
	}},
	{name: "an_expired_hold_of_another_limit_blocks_nothing", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.slots(name, 3, 1, ttl(t.short)))
		t.expired(h.claim)
		b.take(b.lock(name, try)).release()
	}},
	{name: "an_expired_slot_comes_back_and_the_others_stay", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		stays := a.take(a.slots(name, 3, 1))
		gone := a.take(a.slots(name, 3, 2, ttl(t.short)))
		t.expired(gone.claim)
		b.refused(b.slots(name, 3, 3, try))
		b.take(b.slots(name, 3, 2, try))
		b.refused(b.slots(name, 3, 1, try))
		stays.renewed()
	}},
}

// mismatch asks for a claim that must be refused for its limit.
func (t *trial) mismatch(c *client, claim store.Claim, have int64) {
	t.Helper()
	a, err := c.Ask(t.ctx, claim)
	var m *store.MismatchError
	if !errors.Is(err, store.ErrMismatch) || !errors.As(err, &m) {
		t.Fatalf("limit %d while %d is in use: got %+v, %v, want ErrMismatch", claim.Limit, have, a, err)
	}
	if m.Have != have || m.Want != claim.Limit {
		t.Fatalf("got mismatch of %d and %d, want %d and %d", m.Have, m.Want, have, claim.Limit)
	}
}
