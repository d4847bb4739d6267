package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var deadlines = []store.Promise{store.PromiseDeadline}

var expiryPromises = []promise{
	{name: "an_abandoned_hold_comes_free", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		dead := a.take(a.lock(name, ttl(t.short)))
		next := b.wait(b.lock(name, try))
		if next.Token <= dead.Token {
			t.Fatalf("got token %d after %d, want a larger one", next.Token, dead.Token)
		}
		next.release()
		t.empty(name)
	}},
	{name: "a_waiter_is_granted_after_an_abandoned_hold_expires", needs: deadlines, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		a.take(a.lock(name, ttl(t.short)))
		k := b.wait(b.lock(name))
		c.refused(c.lock(name, try))
		k.release()
		t.empty(name)
	}},
	{name: "a_renewal_does_not_revive_an_expired_hold", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.expired(h.claim)
		t.isLost(h.push(t.long), "renew of an expired hold")
		t.isLost(h.push(t.long), "renew of an expired hold, again")
		t.entries(name)
		b.take(b.lock(name, try)).release()
	}},
	{name: "the_release_of_an_expired_hold_is_lost", needs: deadlines, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.expired(h.claim)
		t.isLost(a.Release(t.ctx, h.Hold), "release of an expired hold")
		t.empty(name)
	}},
	{name: "the_ask_of_an_expired_hold_is_lost_and_appends_nothing", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		beside := b.take(b.read(name)) // otherwise a store may have forgotten the name and all its entries
		h := a.take(a.read(name, ttl(t.short)))
		t.expired(h.claim)
		a.lost(h.claim)
		t.entries(name, beside.ID)
		beside.release()
		b.take(b.lock(name, try)).release()
	}},
	{name: "an_expired_hold_withdrawn_is_nothing", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.expired(h.claim)
		a.withdraw(h.claim)
		k := b.take(b.lock(name, try))
		a.withdraw(h.claim)
		k.renewed()
		k.release()
	}},
	{name: "a_late_owner_leaves_the_next_hold_as_it_is", needs: deadlines, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name, ttl(t.short)))
		t.expired(h.claim)
		k := b.take(b.lock(name, try))
		t.isLost(h.push(t.long), "late renewal")
		t.isLost(a.Release(t.ctx, h.Hold), "late release")
		a.withdraw(h.claim)
		if again := b.take(k.claim); again.Token != k.Token {
			t.Fatalf("got token %d, was %d", again.Token, k.Token)
		}
		c.refused(c.lock(name, try))
		t.entries(name, k.ID)
		k.renewed()
		k.release()
	}},
	{name: "a_renewed_hold_outlives_its_ttl", needs: deadlines, run: func(t *trial) {
		a, b := t.client(), t.client()
		var h *held
		var name string
		t.stays("a hold", func(d time.Duration) store.Instant {
			name = t.name()
			h = a.take(a.lock(name, ttl(d)))
			return h.from
		}, func(d time.Duration) (store.Instant, error) {
			renewed := h.renewal(d)
			if renewed.Err != nil {
				return 0, renewed.Err
			}
			r, err := b.Ask(t.ctx, b.lock(name, try))
			if err == nil && r.Granted {
				err = errors.New("another was granted while it is held")
			}
			return renewed.From, err
		})
	}},
	{name: "a_repeated_ask_renews_too", needs: deadlines, run: func(t *trial) {
		a := t.client()
		var h *held
		t.stays("a hold", func(d time.Duration) store.Instant {
			h = a.take(a.lock(t.name(), ttl(d)))
			return h.from
		}, func(time.Duration) (store.Instant, error) {
			r, err := a.Ask(t.ctx, h.claim)
			return r.From, err
		})
	}},
	{name: "a_shorter_renewal_moves_no_expiry_back", needs: deadlines, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		if err := h.push(t.short); err != nil {
			t.Fatalf("renew: %v", err)
		}
		t.outlives(h)
	}},
	{name: "a_shorter_repeated_ask_moves_no_expiry_back", needs: deadlines, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		shorter := h.claim
		shorter.TTL, shorter.PositionTTL = t.short, t.short
		a.take(shorter)
		t.outlives(h)
	}},
	{name: "a_readers_short_ttl_never_cuts_anothers", needs: deadlines, run: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		for _, shortFirst := range []bool{true, false} {
			name := t.name()
			var stays, goes *held
			// A hold that had to wait lasts only as long as its position until it is renewed.
			if shortFirst {
				goes = b.take(b.read(name, ttl(t.short)))
				stays = a.take(a.read(name))
				stays.renewed()
			} else {
				stays = a.take(a.read(name))
				stays.renewed()
				goes = b.take(b.read(name, ttl(t.short)))
			}
			t.expired(goes.claim)
			c.refused(c.lock(name, try))
			if e, ok := t.entry(name, stays.ID); ok {
				if left := t.long - time.Since(stays.before) - t.d.Tick - t.slack(t.long); e.Expires < left {
					t.Fatalf("the long hold expires in %v, want at least %v", e.Expires, left)
				}
			}
			t.isLost(goes.push(t.long), "renew of the short hold")
			stays.renewed()
			stays.release()
			c.take(c.lock(name, try)).release()
		}
	}},
	{name: "a_renewed_reader_does_not_keep_another_alive", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		goes := a.take(a.read(name, ttl(t.short)))
		stays := b.take(b.read(name))
		stays.renewed()
		t.expired(goes.claim)
		stays.renewed()
		t.isLost(goes.push(t.long), "renew of the expired reader")
		t.entries(name, stays.ID)
		stays.release()
		t.empty(name)
	}},
	{name: "a_writer_is_granted_after_a_reader_expires", needs: deadlines, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.take(a.read(name, ttl(t.short)))
		b.wait(b.lock(name)).release()
		t.empty(name)
	}},
}

// wait asks until the claim is granted.
func (c *client) wait(claim store.Claim) *held {
	c.t.Helper()
	var h *held
	c.t.until("the claim is granted", func() bool {
		before := time.Now()
		a := c.ask(claim)
		if a.Granted {
			hold := store.Hold{Name: claim.Name, ID: claim.ID, Token: a.Token, TTL: claim.TTL}
			h = &held{c: c, claim: claim, Hold: hold, before: before, after: time.Now()}
		}
		return a.Granted
	})
	return h
}

// outlives checks that a long hold still has its full time.
func (t *trial) outlives(h *held) {
	t.Helper()
	if e, ok := t.entry(h.Name, h.ID); ok { // at once, if the store can list it
		if left := t.long - time.Since(h.before) - t.d.Tick - t.slack(t.long); e.Expires < left {
			t.Fatalf("the hold expires in %v, want at least %v", e.Expires, left)
		}
	}
	t.pass()
	b := t.client()
	b.refused(b.lock(h.Name, try))
	h.renewed()
	h.release()
}

// pass waits until at least t.short has passed by the store's clock, and
// returns how long that took by the local one.
func (t *trial) pass() time.Duration {
	t.Helper()
	c := t.client()
	witness := c.take(c.lock(t.name(), ttl(t.short)))
	t.expired(witness.claim)
	return time.Since(witness.before)
}
