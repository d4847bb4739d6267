package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var upgrades = []store.Promise{store.PromiseUpgrade}

// asksUpgrade asks for the upgrade of a short hold, which is to pend.
func (c *client) asksUpgrade(u *held) {
	c.t.Helper()
	if _, err := c.Change(c.t.ctx, u.Hold, 1, store.Full); err != nil {
		c.t.isLost(err, "upgrade, too late")
		panic(tooSlow)
	}
}

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
			t.Fatalf("in the way are %d: %+v, want the two readers", r.Holding, r.Holders)
		}
		if !t.lacks(store.PromiseUntil) && (r.Until <= 0 || r.Until > t.long+t.d.Tick) {
			t.Fatalf("until %v, want at most %v", r.Until, t.long)
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
	{name: "Upgrade_is_granted_when_the_last_reader_leaves_and_a_renewal_tells", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		one, two := b.take(b.read(name)), b.take(b.read(name))
		u.pending(1)
		one.release()
		if r := u.tells(store.Upgradeable, store.Full); r.UpgradeToken != 0 {
			t.Fatalf("upgrade token %d before the upgrade was granted", r.UpgradeToken)
		}
		two.release()
		if r := u.tells(store.Full, store.Full); r.UpgradeToken <= two.Token {
			t.Fatalf("upgrade token %d after token %d", r.UpgradeToken, two.Token)
		}
		b.refused(b.read(name, try))
	}},
	{name: "Upgrade_repeated_tells_that_it_was_granted_since", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		u.pending(1)
		t.entries(name, u.ID, r.ID)
		r.release()
		first := u.upgraded(1)
		if again := u.upgraded(1); again.UpgradeToken != first.UpgradeToken {
			t.Fatalf("upgrade token %d, and %d when it was asked for again", first.UpgradeToken, again.UpgradeToken)
		}
		if again := u.upgraded(2); again.UpgradeToken != first.UpgradeToken {
			t.Fatalf("upgrade token %d, and %d when what was upgraded was upgraded again", first.UpgradeToken, again.UpgradeToken)
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
		two.renewed() // who is in stays in
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
			t.Fatalf("upgrade token %d after tokens %d and %d", upgradeToken, u.Token, r.Token)
		}
		wrong := u.Hold
		wrong.Token = upgradeToken
		t.isLost(a.renew(wrong), "renewal with the upgrade token for the token")
		t.isLost(a.Release(t.ctx, wrong), "release with the upgrade token for the token")
		_, err := a.Change(t.ctx, wrong, 2, store.Upgradeable)
		t.isLost(err, "change with the upgrade token for the token")
		u.renewed()
		if again := a.take(u.claim); again.Token != u.Token {
			t.Fatalf("asked again, the token is %d, was %d", again.Token, u.Token)
		}
		u.release()
		if w := b.take(b.lock(name)); w.Token <= upgradeToken {
			t.Fatalf("token %d after upgrade token %d", w.Token, upgradeToken)
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
			t.Fatalf("upgrade token %d, a reader's token %d, upgrade token %d", first, r.Token, second)
		}
	}},
	{name: "Downgrade_keeps_the_fence", needs: upgrades, run: func(t *trial) {
		a, name := t.client(), t.name()
		u := a.take(a.upgradeable(name))
		upgradeToken := u.upgraded(1).UpgradeToken
		if told := u.back(2).UpgradeToken; told != upgradeToken {
			t.Fatalf("upgrade token %d after a downgrade, was %d", told, upgradeToken)
		}
		if told := u.tells(store.Upgradeable, store.Upgradeable).UpgradeToken; told != upgradeToken {
			t.Fatalf("upgrade token %d of a renewal after a downgrade, was %d", told, upgradeToken)
		}
	}},
	{name: "Upgrade_cancelled_lets_those_in_that_fit", needs: upgrades, run: func(t *trial) {
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
	{name: "Upgrade_cancelled_after_its_grant_gives_the_weight_back", needs: upgrades, run: func(t *trial) {
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
			t.Fatalf("a late cancel: %+v, want it answered and not applied", a)
		}
		b.refused(b.read(name, try))
		u.back(4)
		u.stale(3, store.Full)
		u.stale(4, store.Full)
		b.take(b.read(name, try)).release()
		t.entries(name, u.ID)
	}},
	{name: "Upgrade_pending_ends_with_the_expiry_of_its_hold", needs: upgrades, run: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		var u *held
		waits := c.read(t.name())
		t.until("a reader came while an upgrade was pending", func() bool {
			c.withdraw(waits)
			name := t.name()
			b.take(b.read(name))
			u = a.take(a.upgradeable(name, ttl(t.short)))
			if r, err := a.Change(t.ctx, u.Hold, 1, store.Full); err != nil || r.Granted {
				t.isLost(err, "upgrade, too late")
				return false
			}
			waits = c.read(name)
			r := c.ask(waits)
			if !r.Granted && !t.lacks(store.PromiseUntil) && r.Until > t.short+t.d.Tick {
				t.Fatalf("until %v, want the end of the upgrade, %v at most", r.Until, t.short)
			}
			return !r.Granted
		})
		c.wait(waits)
		_, err := a.Change(t.ctx, u.Hold, 2, store.Full)
		t.isLost(err, "upgrade of an expired hold")
		_, err = a.Change(t.ctx, u.Hold, 3, store.Upgradeable)
		t.isLost(err, "downgrade of an expired hold")
		c.take(c.read(u.Name, try))
	}},
	{name: "Upgrade_pending_is_void_while_its_expired_hold_is_in_the_way", needs: append(upgrades, store.PromiseLockDelay), run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		t.expired(u.claim)
		c.take(c.read(name, try))
		c.refused(c.upgradeable(name, try)) // it still weighs
	}},
	{name: "Upgrade_pending_is_not_listed_once_its_hold_has_expired", needs: append(upgrades, store.PromiseLockDelay, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		t.expired(u.claim)
		if e, ok := t.entry(name, u.ID); !ok || e.Want != store.Upgradeable || e.Weight != store.Upgradeable {
			t.Fatalf("expired, and in the way, it is listed as %+v, %v", e, ok)
		}
	}},
	{name: "Upgrade_pending_is_waited_for_until_its_hold_expires", needs: append(upgrades, store.PromiseLockDelay, store.PromiseUntil), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		if r := b.ask(b.read(name, try)); !r.Granted && r.Until > t.short+t.d.Tick {
			t.Fatalf("until %v, want the end of the upgrade, %v at most", r.Until, t.short)
		}
	}},
	{name: "Upgrade_of_an_expired_hold_that_is_in_the_way_is_lost", needs: append(upgrades, store.PromiseLockDelay), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		t.expired(u.claim)
		for turn, weight := range []int64{store.Full, store.Upgradeable} {
			_, err := a.Change(t.ctx, u.Hold, int32(turn+1), weight)
			t.isLost(err, "change of an expired hold")
		}
		b.refused(b.lock(name, try))
		b.take(b.read(name, try))
	}},
	{name: "Upgrade_pending_is_void_once_released", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		r := b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		u.pending(1)
		u.release()
		c.take(c.read(name, try)).release()
		t.entries(name, r.ID)
	}},
	{name: "Upgrade_pending_is_void_once_broken", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name))
		u.pending(1)
		waits := c.read(name)
		c.refused(waits)
		t.breaks(c, u, "because", false)
		c.take(waits)
		c.refused(c.upgradeable(name, try))
	}},
	{name: "Upgrade_of_a_broken_hold_is_lost_and_the_reason_is_told", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		t.breaks(b, u, "because", false)
		_, err := a.Change(t.ctx, u.Hold, 1, store.Full)
		var lost *store.LostError
		if !errors.As(err, &lost) || lost.Reason != "because" {
			t.Fatalf("change of a broken hold: %v, want a LostError with the reason", err)
		}
		b.take(b.read(name, try))
	}},
	{name: "Upgrade_of_a_read_or_a_write_lock_is_invalid", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		one, two := a.take(a.read(name)), b.take(b.read(name))
		two.unchangeable()
		one.unchangeable()
		a.take(a.lock(name)).unchangeable()
		t.empty(name)
	}},
	{name: "Upgrade_of_slots_is_invalid", needs: append(slots, upgrades...), run: func(t *trial) {
		a, name := t.client(), t.name()
		a.take(a.slots(name, store.MaxSlots, store.Upgradeable)).unchangeable()
		a.take(a.slots(name, 2, 1)).unchangeable()
	}},
	{name: "Upgrade_to_another_weight_or_without_a_turn_is_invalid", needs: upgrades, run: func(t *trial) {
		a, name := t.client(), t.name()
		u := a.take(a.upgradeable(name))
		for _, c := range []struct {
			turn   int32
			weight int64
		}{{0, store.Full}, {-1, store.Full}, {1, 1}, {1, 0}, {1, store.Full + 1}} {
			if _, err := a.Change(t.ctx, u.Hold, c.turn, c.weight); !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("change to %d, turn %d: %v, want ErrInvalid", c.weight, c.turn, err)
			}
		}
		u.tells(store.Upgradeable, store.Upgradeable)
	}},
	{name: "Upgrade_without_the_hold_is_lost_and_changes_nothing", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		never := store.Hold{Name: name, ID: a.proc.NewID(), Token: 1}
		_, err := a.Change(t.ctx, never, 1, store.Full)
		t.isLost(err, "change where nobody is")
		t.entries(name)
		u := a.take(a.upgradeable(name))
		for what, spoil := range map[string]func(*store.Hold){
			"with another id":     func(h *store.Hold) { h.ID = b.proc.NewID() },
			"with token 0":        func(h *store.Hold) { h.Token = 0 },
			"with a larger token": func(h *store.Hold) { h.Token++ },
		} {
			if h := u.Hold; what == "with another id" || !t.lacks(store.PromiseMatch) {
				spoil(&h)
				_, err := a.Change(t.ctx, h, 1, store.Full)
				t.isLost(err, "change "+what)
			}
		}
		waits := b.upgradeable(name)
		b.refused(waits)
		for _, token := range []int64{0, 1, u.Token} {
			_, err := b.Change(t.ctx, store.Hold{Name: name, ID: waits.ID, Token: token}, 1, store.Full)
			t.isLost(err, "change of a waiting entry")
		}
		u.tells(store.Upgradeable, store.Upgradeable)
		u.release()
		b.take(waits).release()
	}},
	{name: "Upgrade_and_downgrade_move_no_expiry", needs: append(upgrades, store.PromiseInspect, store.PromiseExpiry), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		t.pass()
		u.pending(1)
		r.release()
		u.upgraded(1)
		u.back(2)
		if e, ok := t.entry(name, u.ID); !ok || e.Expires > t.long-t.short+t.d.Tick {
			t.Fatalf("the hold is %+v, want at least %v of %v gone", e, t.short, t.long)
		}
	}},
	{name: "Upgrade_is_listed", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		if e, ok := t.entry(name, u.ID); !ok || e.Weight != store.Upgradeable || e.Want != store.Full || e.UpgradeToken != 0 {
			t.Fatalf("pending, it is listed as %+v", e)
		}
		if e, ok := t.entry(name, r.ID); !ok || e.Weight != 1 || e.Want != 1 {
			t.Fatalf("the reader is listed as %+v", e)
		}
		r.release()
		upgradeToken := u.upgraded(1).UpgradeToken
		e, ok := t.entry(name, u.ID)
		if !ok || e.Weight != store.Full || e.Want != store.Full || e.UpgradeToken != upgradeToken || e.Token != u.Token || !e.Has(upgradeToken) || !e.Has(u.Token) {
			t.Fatalf("upgraded, it is listed as %+v", e)
		}
		for _, token := range []int64{upgradeToken - 1, upgradeToken + 1} {
			if token != u.Token && e.Has(token) {
				t.Fatalf("%+v has token %d", e, token)
			}
		}
	}},
	{name: "Upgrade_may_be_broken_by_its_fence", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		by := *u
		by.Token = u.upgraded(1).UpgradeToken
		t.breaks(b, &by, "because", false)
		t.isLost(u.push(t.long), "renewal of a broken hold")
		by.Token = u.Token
		t.breaks(b, &by, "because", true)
		t.empty(name)
	}},
	{name: "Upgrade_keeps_the_minimum_hold", needs: append(upgrades, store.PromiseMinHold), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name, withMinHold(t.long)))
		u.renewed()
		u.upgraded(1)
		u.release()
		b.refused(b.read(name, try))
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
			t.Fatalf("notifications %+v, want one, without a token", notifications)
		}
	}},
	{name: "Upgrade_cancelled_wakes_those_in_that_fit", needs: upgrades, watch: true, run: func(t *trial) {
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
			t.Fatalf("notifications %+v for one that still waits", early)
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
		u.upgraded(3) // it passes them again
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
			t.Fatalf("notifications %+v for one that still waits", early)
		}
		u.release()
		b.woken(w)
	}},
}

func (c *client) upgradeable(name string, with ...func(*store.Claim)) store.Claim {
	return c.slots(name, store.Full, store.Upgradeable, with...)
}

// unchangeable checks that the weight cannot be changed, and that the hold is as
// it was; it is given back.
func (h *held) unchangeable() {
	h.c.t.Helper()
	for turn, weight := range []int64{store.Full, store.Upgradeable} {
		if _, err := h.c.Change(h.c.t.ctx, h.Hold, int32(turn+1), weight); !errors.Is(err, store.ErrInvalid) {
			h.c.t.Fatalf("change of a weight of %d to %d: %v, want ErrInvalid", h.claim.Weight, weight, err)
		}
	}
	h.tells(h.claim.Weight, h.claim.Weight)
	h.release()
}

// change must be answered.
func (h *held) change(turn int32, weight int64) store.Answer {
	t := h.c.t
	t.Helper()
	a, err := h.c.Change(t.ctx, h.Hold, turn, weight)
	if err != nil {
		t.Fatalf("change to %d, turn %d: %v, want an answer", weight, turn, err)
	}
	own := false
	for _, e := range a.Holders {
		own = own || e.ID == h.ID
	}
	switch {
	case a.Granted != (a.Weight == weight):
		t.Fatalf("asked for %d, and told %+v", weight, a)
	case a.Token != h.Token || a.N != 1 || a.Want < a.Weight || a.Last < max(a.Token, a.UpgradeToken) || a.UpgradeToken != 0 && a.UpgradeToken <= a.Token:
		t.Fatalf("token %d, and told %+v", h.Token, a)
	case a.TTL != 0 || a.From != 0 || a.Waiting != 0:
		t.Fatalf("it moves no expiry and passes all that wait, and told %+v", a)
	case own || len(a.Holders) != min(a.Holding, store.MaxHolders) || a.Want > a.Weight && a.Holding == 0:
		t.Fatalf("in the way are told to be %+v", a)
	}
	return a
}

// upgraded upgrades what must be granted.
func (h *held) upgraded(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Full)
	if !a.Granted || a.Want != store.Full || a.UpgradeToken == 0 {
		h.c.t.Fatalf("upgrade: %+v, want it granted", a)
	}
	return a
}

// pending upgrades what cannot be granted yet.
func (h *held) pending(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Full)
	if a.Granted || a.Weight != store.Upgradeable || a.Want != store.Full {
		h.c.t.Fatalf("upgrade: %+v, want it pending", a)
	}
	return a
}

// back cancels an upgrade, or downgrades.
func (h *held) back(turn int32) store.Answer {
	h.c.t.Helper()
	a := h.change(turn, store.Upgradeable)
	if !a.Granted || a.Want != store.Upgradeable {
		h.c.t.Fatalf("back to upgradeable: %+v, want it done", a)
	}
	return a
}

// stale sends a copy of an older change to what is upgradeable.
func (h *held) stale(turn int32, weight int64) {
	h.c.t.Helper()
	if a := h.change(turn, weight); a.Granted || a.Weight != store.Upgradeable || a.Want != store.Upgradeable {
		h.c.t.Fatalf("a late copy of turn %d: %+v, want it answered and not applied", turn, a)
	}
}

// tells renews what must be held with this weight.
func (h *held) tells(weight, want int64) store.Renewal {
	t := h.c.t
	t.Helper()
	r := h.c.renewal(h.Hold)
	if r.Err != nil || r.Weight != weight || r.Want != want || r.UpgradeToken != 0 && r.UpgradeToken <= h.Token {
		t.Fatalf("renewal: %+v, want a weight of %d that wants %d", r, weight, want)
	}
	return r
}
