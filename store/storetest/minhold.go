package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var (
	minHold   = []store.Promise{store.PromiseMinHold}
	lockDelay = []store.Promise{store.PromiseLockDelay}
)

// Minimum hold and lock delay: an entry that has expired or was released still
// blocks, though it has ended for its owner.
var minHoldPromises = []promise{
	{name: "a_minimum_hold_is_void_until_the_owner_has_shown_the_token", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		claim := a.lock(name, withMinHold(t.long))
		a.take(claim)
		a.take(claim) // asking shows nothing
		a.withdraw(claim)
		b.take(b.lock(name, try)).release()
		t.empty(name)
	}},
	// The caller had left before the token was shown, so nothing ran.
	{name: "a_minimum_hold_is_void_once_a_shown_hold_is_withdrawn", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long)))
		h.renewed()
		next := b.lock(name)
		b.refused(next)
		a.withdraw(h.claim)
		b.take(next).release()
		a.withdraw(h.claim) // again
		t.empty(name)
	}},
	{name: "a_minimum_hold_is_void_for_a_waiter_that_died", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead := b.lock(name, withMinHold(t.long), ttl(t.short))
		b.refused(dead)
		h.release()
		a.wait(a.lock(name)).release()
		t.empty(name)
	}},
	{name: "a_minimum_hold_is_void_for_a_grant_that_expired_unseen", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long), ttl(t.short)))
		t.expired(h.claim)
		b.take(b.lock(name, try)).release()
	}},
	{name: "an_early_release_keeps_the_name_taken", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long)))
		h.release()
		r := b.refused(b.lock(name, try))
		if e := r.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends <= 0 || e.Ends > t.late(t.long) {
			t.Fatalf("blocked by %+v, want the released hold, expired, for at most %v", e, t.long)
		}
		if !t.lacks(store.PromiseUntil) && (r.Until <= 0 || r.Until > t.late(t.long)) {
			t.Fatalf("got until %v, want the end of the MinHold, %v from the grant", r.Until, t.long)
		}
		b.refused(b.read(name))
	}},
	{name: "a_released_hold_that_blocks_is_gone_for_its_owner", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long)))
		h.release()
		for range 2 {
			t.isLost(h.push(t.long), "renewal after the release")
			t.isLost(a.Release(t.ctx, h.Hold), "second release")
			a.lost(h.claim)
			a.withdraw(h.claim)
		}
		t.entries(name, h.ID)
		b.refused(b.lock(name, try))
	}},
	// An owner whose release was not answered repeats it. The repeat must neither end the minimum hold nor start
	// the lock delay.
	{name: "a_release_that_is_repeated_keeps_the_minimum_hold", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		with := []func(*store.Claim){withMinHold(t.long / 2)}
		if !t.lacks(store.PromiseLockDelay) {
			with = append(with, withLockDelay(t.long))
		}
		h := a.take(a.lock(name, with...))
		h.renewed()
		h.release()
		left := t.keptBy(b.refused(b.lock(name, try)), h.ID, t.long/2)
		for range 2 {
			t.pass()
			t.isLost(a.Release(t.ctx, h.Hold), "repeated release")
			left = t.keptBy(b.refused(b.lock(name, try)), h.ID, left-t.short)
		}
	}},
	{name: "a_minimum_hold_ends", needs: minHold, run: func(t *trial) {
		a, b := t.client(), t.client()
		d := t.ticks(2 * t.short)
		released := a.take(a.lock(t.name(), withMinHold(d)))
		released.release()
		expires := a.take(a.lock(t.name(), withMinHold(d), ttl(t.short)))
		shown := expires.push(t.short) == nil // otherwise it was too late
		next := b.wait(b.lock(released.Name))
		t.least(released, d, next)
		next = b.wait(b.lock(expires.Name))
		if shown {
			t.least(expires, d, next)
		}
	}},
	{name: "a_hold_that_expired_once_shown_blocks_for_its_minimum", needs: minHold, run: func(t *trial) {
		a, b := t.client(), t.client()
		h := a.take(a.lock(t.name(), withMinHold(t.long), ttl(t.short)))
		t.soonEnough(h.push(t.short) == nil)
		t.expired(h.claim)
		r := b.refused(b.lock(h.Name, try))
		if e := r.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends <= 0 || e.Ends > t.late(t.long) {
			t.Fatalf("blocked by %+v, want the expired hold, for at most %v", e, t.long)
		}
		t.isLost(h.push(t.long), "renew of an expired hold")
		t.isLost(a.Release(t.ctx, h.Hold), "release of an expired hold")
		a.lost(h.claim)
		a.withdraw(h.claim)
		b.refused(b.lock(h.Name, try))
	}},
	{name: "a_minimum_hold_counts_from_the_grant_and_not_from_a_renewal", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.long)))
		t.pass()
		h.renewed()
		h.release()
		if e := b.refused(b.lock(name, try)).Holders[0]; e.Ends > t.late(t.long-t.short) {
			t.Fatalf("blocked for %v more, want at most %v less than %v", e.Ends, t.short, t.long)
		}
	}},
	{name: "a_minimum_hold_that_has_ended_delays_no_release", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.d.Tick)))
		t.pass()
		for time.Since(h.before) < t.d.Tick+t.d.Late {
			t.pass()
		}
		h.release()
		b.take(b.lock(name, try)).release()
		t.empty(name)
	}},
	{name: "a_renewed_hold_blocks_past_its_minimum", needs: minHold, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withMinHold(t.short)))
		h.renewed()
		t.pass()
		b.refused(b.lock(name, try))
		h.renewed()
	}},
	{name: "a_kept_name_keeps_its_limit", needs: append(slots, minHold...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.slots(name, 3, 1, withMinHold(t.long)))
		h.release()
		t.mismatch(b, b.lock(name, try), 3)
		b.take(b.slots(name, 3, 2, try))
		b.refused(b.slots(name, 3, 1, try)) // the kept hold still has its weight
	}},
	{name: "an_expired_hold_closes_the_name_for_its_lock_delay", needs: lockDelay, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, withLockDelay(t.long), ttl(t.short)))
		t.expired(h.claim)
		for range 2 {
			// With several nodes, one may still consider it live: then the outcome is
			// indeterminate.
			t.until("a renewal of an expired hold is lost", func() bool {
				err := h.push(t.long)
				if err == nil {
					t.Fatal("an expired hold was renewed")
				}
				return errors.Is(err, store.ErrLost)
			})
			t.isLost(a.Release(t.ctx, h.Hold), "release of an expired hold")
			a.lost(h.claim)
			a.withdraw(h.claim)
		}
		r := b.refused(b.lock(name, try))
		if e := r.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends <= 0 || e.Ends > t.late(t.long) {
			t.Fatalf("blocked by %+v, want the expired hold, for at most %v", e, t.long)
		}
		t.entries(name, h.ID)
	}},
	{name: "a_lock_delay_ends", needs: lockDelay, run: func(t *trial) {
		a, b := t.client(), t.client()
		h := a.take(a.lock(t.name(), withLockDelay(t.short), ttl(t.short)))
		t.least(h, 2*t.short, b.wait(b.lock(h.Name)))
	}},
	{name: "a_grant_that_expired_unseen_has_its_lock_delay", needs: lockDelay, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead := b.lock(name, withLockDelay(t.long), ttl(t.short))
		if b.ask(dead).Granted {
			t.Fatal("granted while another holds it")
		}
		h.release()
		t.expired(dead)
		if e, ok := t.entry(name, dead.ID); ok && e.Granted {
			a.refused(a.lock(name, try)) // otherwise its position had lapsed before the release
		}
	}},
	{name: "a_release_has_no_lock_delay", needs: lockDelay, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.lock(name, withLockDelay(t.long))).release()
		h := b.take(b.lock(name, try, withLockDelay(t.long)))
		b.withdraw(h.claim)
		t.empty(name)
	}},
	{name: "a_lapsed_position_has_no_lock_delay", needs: append(lockDelay, store.PromisePositionTTL), run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		dead, next := b.lock(name, withPositionTTL(t.short), withLockDelay(t.long), withMinHold(t.long)), c.lock(name)
		b.refused(dead)
		t.expired(dead)
		c.refused(next)
		h.release()
		c.take(next).release()
		t.empty(name)
	}},
	{name: "a_delayed_name_keeps_its_limit", needs: append(slots, lockDelay...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.slots(name, 3, 1, withLockDelay(t.long), ttl(t.short)))
		t.expired(h.claim)
		t.mismatch(b, b.lock(name, try), 3)
		b.refused(b.slots(name, 3, 3, try))
		b.take(b.slots(name, 3, 2, try))
	}},
}

// keptBy checks that the minimum hold of a released hold keeps a name taken, and returns for how long, at most
// most. A store whose server has no clock begins to count at the next read.
func (t *trial) keptBy(r store.Answer, id store.ID, most time.Duration) time.Duration {
	t.Helper()
	e := r.Holders[0]
	if e.ID != id || e.Expires > 0 || e.Ends <= 0 || e.Ends > t.late(most) {
		t.Fatalf("blocked by %+v, want the released hold, for at most %v", e, most)
	}
	return e.Ends
}

// late returns the longest remaining time that a store may report for a minimum hold or a lock
// delay of d.
func (t *trial) late(d time.Duration) time.Duration { return d + t.d.Tick + t.d.Late }

// least checks that the next claim was granted no sooner than d after the
// first: d has passed from just before the ask of the first to the grant of the
// next.
func (t *trial) least(first *held, d time.Duration, next *held) {
	t.Helper()
	if passed := next.after.Sub(first.before); passed < d-d/64 { // clocks differ slightly
		t.Fatalf("the next was granted %v after the first, want %v", passed, d)
	}
}
