package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// What ends or refuses an upgrade, and what others see of it.
var upgradeEndPromises = []promise{
	{name: "Upgrade_pending_ends_with_the_expiry_of_its_hold", needs: upgrades, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short)))
		a.asksUpgrade(u)
		waits := c.read(name)
		r := c.ask(waits)
		t.soonEnough(!r.Granted)
		if !t.lacks(store.PromiseUntil) && r.Until > t.short+t.d.Tick {
			t.Fatalf("got until %v, want the end of the upgrade, at most %v", r.Until, t.short)
		}
		c.wait(waits)
		_, err := a.Change(t.ctx, u.Hold, 2, store.Full)
		t.isLost(err, "upgrade of an expired hold")
		_, err = a.Change(t.ctx, u.Hold, 3, store.Upgradeable)
		t.isLost(err, "downgrade of an expired hold")
		c.take(c.read(name, try))
	}},
	{name: "Upgrade_pending_is_void_while_its_expired_hold_blocks", needs: append(upgrades, store.PromiseLockDelay), run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		t.expired(u.claim)
		c.take(c.read(name, try))
		c.refused(c.upgradeable(name, try)) // the expired hold still has its weight
	}},
	{name: "Upgrade_pending_is_not_listed_once_its_hold_has_expired", needs: append(upgrades, store.PromiseLockDelay, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		t.expired(u.claim)
		if e, ok := t.entry(name, u.ID); !ok || e.Want != store.Upgradeable || e.Weight != store.Upgradeable {
			t.Fatalf("the expired hold, while it blocks, is listed as %+v, %v", e, ok)
		}
	}},
	{name: "Upgrade_pending_is_waited_for_until_its_hold_expires", needs: append(upgrades, store.PromiseLockDelay, store.PromiseUntil), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		a.asksUpgrade(u)
		if r := b.ask(b.read(name, try)); !r.Granted && r.Until > t.short+t.d.Tick {
			t.Fatalf("got until %v, want the end of the upgrade, at most %v", r.Until, t.short)
		}
	}},
	{name: "Upgrade_of_an_expired_hold_that_blocks_is_lost", needs: append(upgrades, store.PromiseLockDelay), run: func(t *trial) {
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
	{name: "Upgrade_of_a_broken_hold_is_lost_and_the_reason_is_returned", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		t.breaks(b, u, "because", false)
		_, err := a.Change(t.ctx, u.Hold, 1, store.Full)
		var lost *store.LostError
		if !errors.As(err, &lost) || lost.Reason != "because" {
			t.Fatalf("change of a broken hold: got %v, want a LostError with the reason", err)
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
				t.Fatalf("change to %d, turn %d: got %v, want ErrInvalid", c.weight, c.turn, err)
			}
		}
		u.tells(store.Upgradeable, store.Upgradeable)
	}},
	{name: "Upgrade_without_the_hold_is_lost_and_changes_nothing", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		never := store.Hold{Name: name, ID: a.proc.NewID(), Token: 1}
		_, err := a.Change(t.ctx, never, 1, store.Full)
		t.isLost(err, "change of a name without entries")
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
			t.Fatalf("the hold is %+v, want at least %v of %v passed", e, t.short, t.long)
		}
	}},
	{name: "Upgrade_is_listed", needs: append(upgrades, store.PromiseInspect), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		if e, ok := t.entry(name, u.ID); !ok || e.Weight != store.Upgradeable || e.Want != store.Full || e.UpgradeToken != 0 {
			t.Fatalf("the pending upgrade is listed as %+v", e)
		}
		if e, ok := t.entry(name, r.ID); !ok || e.Weight != 1 || e.Want != 1 {
			t.Fatalf("the reader is listed as %+v", e)
		}
		r.release()
		upgradeToken := u.upgraded(1).UpgradeToken
		e, ok := t.entry(name, u.ID)
		if !ok || e.Weight != store.Full || e.Want != store.Full || e.UpgradeToken != upgradeToken || e.Token != u.Token || !e.Has(upgradeToken) || !e.Has(u.Token) {
			t.Fatalf("the upgraded hold is listed as %+v", e)
		}
		for _, token := range []int64{upgradeToken - 1, upgradeToken + 1} {
			if token != u.Token && e.Has(token) {
				t.Fatalf("got %+v, which has token %d", e, token)
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
}

// asksUpgrade asks for the upgrade of a short hold, which must become pending.
func (c *client) asksUpgrade(u *held) {
	c.t.Helper()
	if _, err := c.Change(c.t.ctx, u.Hold, 1, store.Full); err != nil {
		c.t.isLost(err, "late upgrade")
		panic(tooSlow)
	}
}
