package storetest

import "github.com/holdfast-go/holdfast/store"

var totals = []store.Promise{store.PromiseSlots, store.PromiseTotals}

// During a rolling deploy that changes the total of a semaphore, two totals are in use.
var totalPromises = []promise{
	{name: "beside_a_holder_of_a_smaller_total_a_try_has_to_fit_that", needs: totals, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		small := a.take(a.slots(name, 3, 1))
		b.refused(b.slots(name, 5, 3, try))
		large := b.take(b.slots(name, 5, 2, try))
		b.refused(b.slots(name, 5, 1, try))
		small.release()
		b.take(b.slots(name, 5, 3, try)).release()
		large.release()
		t.empty(name)
	}},
	{name: "a_try_of_a_smaller_total_has_to_fit_it", needs: totals, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		large := a.take(a.slots(name, 5, 3))
		b.refused(b.slots(name, 3, 1, try))
		large.renewed()
		b.take(b.slots(name, 4, 1, try))
	}},
	{name: "a_smaller_total_takes_nothing_from_holders", needs: totals, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		large, one := a.take(a.slots(name, 5, 3)), a.take(a.slots(name, 5, 1))
		w := b.slots(name, 3, 1)
		b.refused(w)
		one.release() // the store now checks the waiters: three of three are still held
		large.renewed()
		b.refused(w)
		large.release()
		b.take(w)
	}},
	{name: "a_waiter_is_granted_only_under_the_totals_of_all_holders", needs: totals, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		small, large, newest := a.take(a.slots(name, 3, 1)), a.take(a.slots(name, 5, 1)), a.take(a.slots(name, 5, 1))
		w := b.slots(name, 5, 3)
		b.refused(w)
		large.release()
		b.refused(w) // five slots would be held, and a holder has a total of three
		newest.release()
		b.refused(w)
		small.release()
		b.take(w)
	}},
	{name: "waiters_granted_together_fit_the_smallest_of_their_totals", needs: totals, run: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		for _, smallFirst := range []bool{true, false} {
			name := t.name()
			all, small, large := a.take(a.slots(name, 5, 5)), b.slots(name, 3, 1), c.slots(name, 5, 3)
			first, next := small, large
			if !smallFirst {
				first, next = large, small
			}
			b.refused(first)
			c.refused(next)
			all.release()
			h := b.take(first)
			c.refused(next) // four slots would be held, and one total is three
			h.release()
			c.take(next).release()
			t.empty(name)
		}
	}},
	{name: "a_claim_of_more_than_the_smaller_total_is_granted_after_it", needs: totals, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		small := a.take(a.slots(name, 3, 1))
		all, next := b.slots(name, 5, 5), c.slots(name, 3, 1)
		b.refused(all)
		c.refused(next)
		small.release()
		h := b.take(all)
		c.refused(next)
		h.release()
		c.take(next)
	}},
}
