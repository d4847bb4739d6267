package storetest

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// An upgrade asks the readers that block it to give up.
var upgradeAsks = append([]store.Promise{store.PromiseGiveUp}, upgrades...)

var upgradeGiveUpPromises = []promise{
	{name: "Upgrade_that_is_pending_asks_each_other_holder_to_give_up", needs: upgradeAsks, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		one, two, three := a.take(a.read(name)), b.take(b.read(name)), c.take(c.read(name))
		one.asked("")
		u.asks("I want to write")
		u.pending(1)
		for _, h := range []*held{one, two, three} {
			h.asked("I want to write")
			h.asked("I want to write")
		}
		u.asked("")
		one.release()
		two.release()
		three.asked("I want to write")
		three.release()
		u.tells(store.Full, store.Full)
		u.asked("")
	}},
	{name: "Upgrade_that_is_granted_asks_nobody_to_give_up", needs: upgradeAsks, run: func(t *trial) {
		u, r := t.pendingUpgrade()
		r.release()
		u.upgraded(1)
		u.back(2)
		r.c.take(r.c.read(u.Name)).asked("")
		u.asked("")
	}},
	{name: "Upgrade_given_up_asks_nobody_to_give_up", needs: upgradeAsks, run: func(t *trial) {
		u, r := t.pendingUpgrade()
		r.asked("please")
		u.back(2)
		r.askedNext("please", "")
		u.asks("")
		u.pending(3)
		r.asked("")
	}},
	{name: "Upgrade_released_asks_nobody_to_give_up", needs: upgradeAsks, run: func(t *trial) {
		u, r := t.pendingUpgrade()
		r.asked("please")
		u.release()
		r.askedNext("please", "")
	}},
	{name: "Upgrade_broken_asks_nobody_to_give_up", needs: append(inspect, upgradeAsks...), run: func(t *trial) {
		u, r := t.pendingUpgrade()
		r.asked("please")
		t.breaks(r.c, u, "because", false)
		r.askedNext("please", "")
		u.tellsLost("because")
		t.breaks(r.c, u, "and now", true)
		r.asked("")
		r.release()
	}},
	{name: "Upgrade_of_an_expired_hold_asks_nobody_to_give_up", needs: append([]store.Promise{store.PromiseLockDelay}, upgradeAsks...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		r := b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		u.asks("please")
		a.asksUpgrade(u)
		t.expired(u.claim)
		r.askedNext("please", "")
	}},
	{name: "Upgrade_of_an_expired_hold_is_not_listed_as_asking", needs: append([]store.Promise{store.PromiseLockDelay, store.PromiseInspect}, upgradeAsks...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		b.take(b.read(name))
		u := a.take(a.upgradeable(name, ttl(t.short), withLockDelay(t.long)))
		u.asks("please")
		a.asksUpgrade(u)
		t.expired(u.claim)
		if e, ok := t.entry(name, u.ID); !ok || e.GiveUp != "" {
			t.Fatalf("the expired hold is listed as %+v, %v", e, ok)
		}
	}},
	{name: "Upgrade_is_heard_before_who_waits", needs: upgradeAsks, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		c.refused(c.lock(name, asking("I wait")))
		r.asked("I wait")
		u.asked("I wait")
		u.asks("I upgrade")
		u.pending(1)
		r.asked("I upgrade")
		u.asked("I wait")
		u.back(2)
		r.askedNext("I upgrade", "I wait")
	}},
	{name: "Upgrade_asks_for_what_was_applied_with_its_turn", needs: upgradeAsks, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.asks("first")
		u.pending(1)
		u.asks("a copy has no other")
		u.pending(1)
		r.asked("first")
		u.asks("second")
		u.pending(2)
		r.askedNext("first", "second")
		u.asks("a downgrade has none")
		u.back(3)
		r.askedNext("second", "")
	}},
	{name: "Upgrade_that_asks_is_not_taken_for_a_broken_hold", needs: upgradeAsks, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.asks("\x01a byte that begins the reason of a hold broken with now")
		u.pending(1)
		u.renewed()
		c.refused(c.read(name, try)) // a pending upgrade blocks
		c.refused(c.upgradeable(name, try))
		if again := a.take(u.claim); again.Token != u.Token {
			t.Fatalf("asked again: got token %d, had %d", again.Token, u.Token)
		}
		r.release()
		u.upgraded(1)
		u.renewed()
		c.refused(c.read(name, try))
		u.release()
		t.empty(name)
	}},
	{name: "Upgrade_notifies_each_holder_that_it_asks_to_give_up", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client().watch(), t.name()
		u := a.take(a.upgradeable(name))
		one, two := b.take(b.read(name)), c.take(c.read(name))
		u.asks("please")
		u.pending(1)
		b.notified(one)
		c.notified(two)
		one.asked("please")
		two.asked("please")
	}},
	{name: "Upgrade_repeated_notifies_no_holder_again", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client().watch(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.asks("please")
		u.pending(1)
		u.pending(1)
		u.pending(2)
		b.notified(r)
		waits := c.lock(name)
		c.refused(waits)
		r.release()
		u.upgraded(2)
		u.release()
		c.woken(waits) // what was sent before it has come
		if all := b.got(r.ID); len(all) != 1 {
			t.Fatalf("got notifications %+v for one upgrade, want one", all)
		}
	}},
	{name: "Upgrade_does_not_notify_itself_that_it_asks", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, name := t.client().watch(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.asks("please")
		u.pending(1)
		r.release()
		a.notified(u)
		u.tells(store.Full, store.Full)
		if all := a.got(u.ID); len(all) != 1 {
			t.Fatalf("got notifications %+v, want the one of its grant", all)
		}
	}},
	{name: "Upgrade_notifies_again_after_one_that_was_given_up", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		u := a.take(a.upgradeable(name))
		b.take(b.read(name))
		u.asks("please")
		u.pending(1)
		u.back(2)
		r := b.take(b.read(name))
		u.pending(3)
		b.notified(r)
		r.asked("please")
	}},
	{name: "Upgrade_notifies_though_its_hold_asked_while_it_waited", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client(), t.name()
		h := c.take(c.upgradeable(name))
		waits := a.upgradeable(name, asking("please"))
		a.refused(waits)
		h.release()
		u := a.take(waits)
		r := b.take(b.read(name))
		r.asked("")
		u.asks("please")
		u.pending(1)
		b.notified(r)
		r.asked("please")
	}},
	{name: "Upgrade_that_asks_nobody_notifies_no_holder", needs: upgradeAsks, watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client().watch(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.pending(1)
		waits := c.lock(name)
		c.refused(waits)
		r.release()
		u.upgraded(1)
		u.release()
		c.woken(waits) // what was sent before it has come
		if early := b.got(r.ID); len(early) != 0 {
			t.Fatalf("got notifications %+v for an upgrade that asks no holder", early)
		}
	}},
	{name: "Upgrade_whose_reason_is_too_long_is_invalid", needs: upgrades, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		b.take(b.read(name))
		u.asks(strings.Repeat("r", store.MaxReason+1))
		if _, err := a.Change(t.ctx, u.Hold, 1, store.Full); !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("got %v, want ErrInvalid", err)
		}
		u.tells(store.Upgradeable, store.Upgradeable)
		u.asks(strings.Repeat("r", store.MaxReason))
		u.pending(1)
	}},
	{name: "a_list_shows_which_upgrade_asks_to_give_up", needs: append(inspect, upgradeAsks...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		u := a.take(a.upgradeable(name))
		r := b.take(b.read(name))
		u.asks("please ü")
		u.pending(1)
		for id, want := range map[store.ID]string{u.ID: "please ü", r.ID: ""} {
			if e, ok := t.entry(name, id); !ok || e.GiveUp != want || e.Broken != "" {
				t.Fatalf("listed as %+v, %v, want the reason %q", e, ok, want)
			}
		}
		u.back(2)
		if e, ok := t.entry(name, u.ID); !ok || e.GiveUp != "" {
			t.Fatalf("the canceled upgrade is listed as %+v, %v", e, ok)
		}
	}},
}

// pendingUpgrade returns a hold whose pending upgrade asks a reader of another process to
// give up, and that reader.
func (t *trial) pendingUpgrade() (u, r *held) {
	t.Helper()
	a, b, name := t.client(), t.client(), t.name()
	u, r = a.take(a.upgradeable(name)), b.take(b.read(name))
	u.asks("please")
	u.pending(1)
	return u, r
}
