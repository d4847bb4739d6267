package storetest

import (
	"github.com/holdfast-go/holdfast/store"
)

var order = []store.Promise{store.PromiseOrder}

var orderPromises = []promise{
	{name: "waiters_are_granted_in_the_order_they_came", needs: order, run: func(t *trial) {
		name := t.name()
		first := t.client()
		h := first.take(first.lock(name))
		var clients []*client
		var claims []store.Claim
		for range 4 {
			c := t.client()
			claim := c.lock(name)
			c.refused(claim)
			clients, claims = append(clients, c), append(claims, claim)
		}
		for i, c := range clients {
			for j := len(clients) - 1; j >= i; j-- { // the last one polls first
				if a := clients[j].refused(claims[j]); a.Waiting != j-i {
					t.Fatalf("waiter %d: got %d ahead, want %d", j, a.Waiting, j-i)
				}
			}
			h.release()
			for j := len(clients) - 1; j > i; j-- {
				clients[j].refused(claims[j])
			}
			h = c.take(claims[i])
		}
		h.release()
		t.empty(name)
	}},
	{name: "a_try_does_not_pass_a_waiter", needs: order, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := a.take(a.read(name))
		w := b.lock(name)
		b.refused(w)
		c.refused(c.read(name, try)) // it would fit
		r.release()
		c.refused(c.lock(name, try)) // the waiter is granted, though its owner has not asked
		b.take(w).release()
		t.empty(name)
	}},
	{name: "readers_hold_together_and_keep_a_writer_out", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		one, two := a.take(a.read(name, try)), b.take(b.read(name, try))
		b.refused(b.lock(name, try))
		one.release()
		b.refused(b.lock(name, try))
		two.release()
		b.take(b.lock(name, try)).release()
	}},
	{name: "a_writer_keeps_readers_and_writers_out", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		w := a.take(a.lock(name, try))
		b.refused(b.read(name, try))
		a.refused(a.read(name, try))
		b.refused(b.lock(name, try))
		w.release()
		b.take(b.read(name, try)).release()
	}},
	{name: "a_waiting_writer_blocks_later_readers", needs: order, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := a.take(a.read(name))
		w := b.lock(name)
		b.refused(w)
		c.refused(c.read(name, try))
		late := c.read(name)
		c.refused(late)
		r.release()
		c.refused(late)
		h := b.take(w)
		h.release()
		c.take(late).release()
		t.empty(name)
	}},
	{name: "a_writer_that_gives_up_unblocks_readers", needs: order, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := a.take(a.read(name))
		w, late := b.lock(name), c.read(name)
		b.refused(w)
		c.refused(late)
		b.withdraw(w)
		c.take(late)
		c.take(c.read(name, try))
		r.renewed()
	}},
	{name: "a_release_grants_readers_up_to_the_next_writer", needs: order, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		r1, r2, w, r3 := b.read(name), b.read(name), b.lock(name), b.read(name)
		for _, c := range []store.Claim{r1, r2, w, r3} {
			b.refused(c)
		}
		h.release()
		for i, id := range []store.ID{r1.ID, r2.ID, w.ID, r3.ID} { // before anyone asks
			if e, ok := t.entry(name, id); ok && e.Granted != (i < 2 && !t.lacks(store.PromiseDrawn)) {
				t.Fatalf("after the release the entry of waiter %d is %+v", i, e)
			}
		}
		b.refused(r3)
		if x := b.refused(w); x.Holding+x.Waiting != 2 || x.Waiting != 0 && !t.lacks(store.PromiseDrawn) {
			t.Fatalf("the writer: got %d holders and %d waiters, want 2 and 0", x.Holding, x.Waiting)
		}
		two, one := b.take(r2), b.take(r1)
		one.release()
		two.release()
		b.refused(r3)
		b.take(w).release()
		b.take(r3).release()
		t.empty(name)
	}},
	{name: "two_upgradeable_reads_never_fit_and_readers_beside_one_do", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		before := a.take(a.read(name, try))
		u := a.take(a.upgradeable(name, try))
		after := b.take(b.read(name, try))
		b.refused(b.upgradeable(name, try))
		b.refused(b.lock(name, try))
		u.release()
		b.take(b.upgradeable(name, try)).release()
		before.release()
		after.release()
	}},
}
