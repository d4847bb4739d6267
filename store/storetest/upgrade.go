package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var upgrades = []store.Promise{store.PromiseUpgrade}

var upgradePromises = []promise{
	{name: "Upgrade_is_granted_at_once_where_nobody_else_is_in", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		u.upgraded(1)
		b.refused(b.read(name, try))
		b.refused(b.lock(name, try))
		u.tells(store.Full, store.Full)
		t.entries(name, u.ID)
		u.release()
		t.empty(name)
	}},
	{name: "Upgrade_is_refused_beside_a_reader_and_leaves_the_hold_as_it_was", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		before := b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		after := b.take(b.read(name))
		r := u.pending(1)
		if r.Holding != 2 || r.Holders[0].ID != before.ID || r.Holders[1].ID != after.ID {
			t.Fatalf("blocked by %d holders: %+v, want the two readers", r.Holding, r.Holders)
		}
		if !t.lacks(store.PromiseUntil) && (r.Until <= 0 || r.Until > t.long+t.d.Tick) {
			t.Fatalf("got until %v, want at most %v", r.Until, t.long)
		}
		u.back(2)
		u.tells(store.Upgradeable, store.Upgradeable)
		c.refused(c.upgradeable(name, try))
		c.refused(c.lock(name, try))
		more := c.take(c.read(name, try))
		for _, h := range []*held{before, after, more} {
			h.renewed()
			h.release()
		}
		u.upgraded(3)
		u.release()
		t.empty(name)
	}},
	{name: "Upgrade_is_granted_when_the_last_reader_leaves_and_is_reported", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		one, two := b.take(b.read(name)), b.take(b.read(name))
		u.pending(1)
		one.release()
		if r := u.tells(store.Upgradeable, store.Full); r.UpgradeToken != 0 {
			t.Fatalf("got upgrade token %d before the upgrade was granted", r.UpgradeToken)
		}
		two.release()
		if r := u.tells(store.Full, store.Full); r.UpgradeToken <= two.Token {
			t.Fatalf("got upgrade token %d after token %d, want a larger one", r.UpgradeToken, two.Token)
		}
		b.refused(b.read(name, try))
	}},
	{name: "Upgrade_repeated_reports_that_it_was_granted_since", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		u.pending(1)
		t.entries(name, u.ID, r.ID)
		r.release()
		first := u.upgraded(1)
		if again := u.upgraded(1); again.UpgradeToken != first.UpgradeToken {
			t.Fatalf("got upgrade token %d, and %d when asked again", first.UpgradeToken, again.UpgradeToken)
		}
		if again := u.upgraded(2); again.UpgradeToken != first.UpgradeToken {
			t.Fatalf("got upgrade token %d, and %d after a second upgrade", first.UpgradeToken, again.UpgradeToken)
		}
		t.entries(name, u.ID)
	}},
	{name: "Upgrade_that_is_pending_keeps_all_others_out", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		one, two := b.take(b.read(name)), b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		u.pending(1)
		c.refused(c.read(name, try)) // it would fit
		waits := c.read(name)
		c.refused(waits)
		one.release()
		c.refused(waits)
		c.refused(c.read(name, try))
		two.renewed() // a holder stays a holder
		two.release()
		c.refused(waits)
		t.entries(name, u.ID, waits.ID)
		u.tells(store.Full, store.Full)
		u.release()
		c.take(waits).release()
		t.empty(name)
	}},
	{name: "Upgrade_passes_all_that_wait", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		w, late := c.lock(name), c.read(name)
		c.refused(w)
		c.refused(late)
		u.pending(1)
		r.release()
		c.refused(w)
		u.tells(store.Full, store.Full)
		u.release()
		h := c.take(w)
		c.refused(late)
		h.release()
		c.take(late)
	}},
	{name: "Upgrade_draws_a_fence_and_the_token_stays_the_holds_identity", needs: append(byToken, upgrades...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		r.release()
		upgradeToken := u.upgraded(1).UpgradeToken
		if upgradeToken <= max(u.Token, r.Token) {
			t.Fatalf("got upgrade token %d after tokens %d and %d, want a larger one", upgradeToken, u.Token, r.Token)
		}
		wrong := u.Hold
		wrong.Token = upgradeToken
		t.isLost(a.renew(wrong), "renewal with the upgrade token as the token")
		t.isLost(a.Release(t.ctx, wrong), "release with the upgrade token as the token")
		_, err := a.Change(t.ctx, wrong, 2, store.Upgradeable)
		t.isLost(err, "change with the upgrade token as the token")
		u.renewed()
		if again := a.take(u.claim); again.Token != u.Token {
			t.Fatalf("asked again: got token %d, was %d", again.Token, u.Token)
		}
		u.release()
		if w := b.take(b.lock(name)); w.Token <= upgradeToken {
			t.Fatalf("got token %d after upgrade token %d, want a larger one", w.Token, upgradeToken)
		}
	}},
	{name: "Upgrade_again_draws_another_fence", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		first := u.upgraded(1).UpgradeToken
		u.back(2)
		r := b.take(b.read(name))
		r.release()
		second := u.upgraded(3).UpgradeToken
		if r.Token <= first || second <= r.Token {
			t.Fatalf("got upgrade token %d, a reader's token %d, and upgrade token %d; want each larger", first, r.Token, second)
		}
	}},
	{name: "Downgrade_keeps_the_fence", needs: upgrades, run: func(t *trial) {
		a, name := t.client(), t.name()
		u := a.take(a.upgradeable(name))
		upgradeToken := u.upgraded(1).UpgradeToken
		if got := u.back(2).UpgradeToken; got != upgradeToken {
			t.Fatalf("got upgrade token %d after a downgrade, was %d", got, upgradeToken)
		}
		if got := u.tells(store.Upgradeable, store.Upgradeable).UpgradeToken; got != upgradeToken {
			t.Fatalf("got upgrade token %d from a renewal after a downgrade, was %d", got, upgradeToken)
		}
	}},
	{name: "Upgrade_canceled_admits_what_fits", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		u.pending(1)
		one, w, two := c.read(name), c.lock(name), c.read(name)
		c.refused(one)
		c.refused(w)
		c.refused(two)
		u.back(2)
		in := c.take(one)
		c.refused(w)
		c.refused(two)
		for _, h := range []*held{r, in, u} {
			h.renewed()
			h.release()
		}
		c.take(w).release()
		c.take(two).release()
		t.empty(name)
	}},
	{name: "Upgrade_canceled_after_its_grant_returns_the_weight", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		r.release()
		u.back(2)
		u.tells(store.Upgradeable, store.Upgradeable)
		b.take(b.read(name, try)).release()
		u.release()
		t.empty(name)
	}},
	{name: "Upgrade_late_copies_undo_nothing", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		u.back(2)
		u.stale(1, store.Full)
		b.take(b.read(name, try)).release()
		r.release()
		u.stale(1, store.Full) // now it would be granted
		u.tells(store.Upgradeable, store.Upgradeable)
		b.take(b.read(name, try)).release()

		upgradeToken := u.upgraded(3).UpgradeToken
		if a := u.change(2, store.Upgradeable); a.Granted || a.Weight != store.Full || a.UpgradeToken != upgradeToken {
			t.Fatalf("a late cancel: got %+v, want an answer that it was not applied", a)
		}
		b.refused(b.read(name, try))
		u.back(4)
		u.stale(3, store.Full)
		u.stale(4, store.Full)
		b.take(b.read(name, try)).release()
		t.entries(name, u.ID)
	}},
	{name: "Upgrade_granted_by_another_wakes_its_owner_without_a_token", needs: upgrades, watch: true, run: func(t *trial) {
		a, b, name := t.client().watch(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		one, two := b.take(b.read(name)), b.take(b.read(name))
		u.pending(1)
		one.release()
		two.release()
		t.until("the upgrader has its notification", func() bool { return len(a.got(u.ID)) > 0 })
		u.tells(store.Full, store.Full)
		if notifications := a.got(u.ID); len(notifications) != 1 || notifications[0] != (store.Notification{Name: name, ID: u.ID}) {
			t.Fatalf("got notifications %+v, want one without a token", notifications)
		}
	}},
	{name: "Upgrade_canceled_notifies_what_fits", needs: upgrades, watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client().watch(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		u.pending(1)
		one, w := c.read(name), c.lock(name)
		c.refused(one)
		c.refused(w)
		u.back(2)
		c.woken(one)
		if early := c.got(w.ID); len(early) > 0 {
			t.Fatalf("got notifications %+v for a claim that still waits", early)
		}
	}},
	{name: "Downgrade_lets_readers_in_and_nobody_between", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		u.upgraded(1)
		one, two, v, late := b.read(name), b.read(name), b.upgradeable(name), b.read(name)
		for _, c := range []store.Claim{one, two, v, late} {
			b.refused(c)
		}
		u.back(2)
		b.take(one).renewed()
		b.take(two).renewed()
		b.refused(v)
		b.refused(late)
		u.tells(store.Upgradeable, store.Upgradeable)
		u.release()
		b.take(v)
		b.take(late)
	}},
	{name: "Downgrade_does_not_let_a_waiting_writer_in", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		u.upgraded(1)
		w, r := b.lock(name), b.read(name)
		b.refused(w)
		b.refused(r)
		u.back(2)
		u.back(2)
		b.refused(w)
		b.refused(r)
		t.entries(name, u.ID, w.ID, r.ID)
		u.tells(store.Upgradeable, store.Upgradeable)
		u.upgraded(3) // it goes before them again
		u.back(4)
		u.release()
		b.take(w).release()
		b.take(r).release()
		t.empty(name)
	}},
	{name: "Downgrade_wakes_the_readers_that_it_lets_in", needs: upgrades, watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		u := a.take(a.upgradeable(name))
		u.upgraded(1)
		one, two, w := b.read(name), b.read(name), b.lock(name)
		b.refused(one)
		b.refused(two)
		b.refused(w)
		u.back(2)
		b.woken(one).release()
		b.woken(two).release()
		if early := b.got(w.ID); len(early) > 0 {
			t.Fatalf("got notifications %+v for a claim that still waits", early)
		}
		u.release()
		b.woken(w)
	}},
}

func (c *client) upgradeable(name string, with ...func(*store.Claim)) store.Claim {
	return c.slots(name, store.Full, store.Upgradeable, with...)
}

// unchangeable checks that the weight cannot be changed, and that the hold is as
// it was. Then it releases the hold.
func (h *held) unchangeable() {
	h.c.t.Helper()
	for turn, weight := range []int64{store.Full, store.Upgradeable} {
		if _, err := h.c.Change(h.c.t.ctx, h.Hold, int32(turn+1), weight); !errors.Is(err, store.ErrInvalid) {
			h.c.t.Fatalf("change of a weight of %d to %d: got %v, want ErrInvalid", h.claim.Weight, weight, err)
		}
	}
	h.tells(h.claim.Weight, h.claim.Weight)
	h.release()
}

// change changes the weight, which must be answered, and checks the answer.
func (h *held) change(turn int32, weight int64) store.Answer {
	t := h.c.t
	t.Helper()
	a, err := h.c.Change(t.ctx, h.Hold, turn, weight)
	if err != nil {
		t.Fatalf("change to %d, turn %d: got %v, want an answer", weight, turn, err)
	}
	own := false
	for _, e := range a.Holders {
		own = own || e.ID == h.ID
	}
	switch {
	case a.Granted != (a.Weight == weight):
		t.Fatalf("change to %d: got %+v", weight, a)
	case a.Token != h.Token || a.N != 1 || a.Want < a.Weight || a.Last < max(a.Token, a.UpgradeToken) || a.UpgradeToken != 0 && a.UpgradeToken <= a.Token:
		t.Fatalf("change of the hold with token %d: got %+v", h.Token, a)
	case a.TTL != 0 || a.From != 0 || a.Waiting != 0:
		t.Fatalf("a change moves no expiry and passes all waiters: got %+v", a)
	case own || len(a.Holders) != min(a.Holding, store.MaxHolders) || a.Want > a.Weight && a.Holding == 0:
		t.Fatalf("the blocking holders are %+v", a)
	}
	return a
}

// upgraded asks for an upgrade that must be granted.
func (h *held) upgraded(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Full)
	if !a.Granted || a.Want != store.Full || a.UpgradeToken == 0 {
		h.c.t.Fatalf("upgrade: got %+v, want it granted", a)
	}
	return a
}

// pending asks for an upgrade that cannot be granted yet.
func (h *held) pending(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Full)
	if a.Granted || a.Weight != store.Upgradeable || a.Want != store.Full {
		h.c.t.Fatalf("upgrade: got %+v, want it pending", a)
	}
	return a
}

// back cancels an upgrade, or downgrades.
func (h *held) back(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Upgradeable)
	if !a.Granted || a.Want != store.Upgradeable {
		h.c.t.Fatalf("downgrade: got %+v, want it done", a)
	}
	return a
}

// stale sends a copy of an older change of a hold that is upgradeable now.
func (h *held) stale(turn int32, weight int64) {
	h.c.t.Helper()
	if a := h.change(turn, weight); a.Granted || a.Weight != store.Upgradeable || a.Want != store.Upgradeable {
		h.c.t.Fatalf("a late copy of turn %d: got %+v, want an answer that it was not applied", turn, a)
	}
}

// tells renews a hold, which must have this weight and this Want.
func (h *held) tells(weight, want int64) store.Renewal {
	t := h.c.t
	t.Helper()
	r := h.c.renewal(h.Hold)
	if r.Err != nil || r.Weight != weight || r.Want != want || r.UpgradeToken != 0 && r.UpgradeToken <= h.Token {
		t.Fatalf("renewal: got %+v, want weight %d and wanted weight %d", r, weight, want)
	}
	return r
}
