package storetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// In general a notification may be false or missing. From a healthy store it is
// neither.
var notificationPromises = []promise{
	{name: "a_release_notifies_only_the_next_waiter", watch: true, run: func(t *trial) {
		a, name := t.client(), t.name()
		h := a.take(a.lock(name))
		var clients []*client
		var claims []store.Claim
		for range 4 {
			c := t.client().watch()
			w := c.lock(name)
			c.refused(w)
			clients, claims = append(clients, c), append(claims, w)
		}
		for i, c := range clients {
			h.release()
			// woken checks that this is the first notification of the claim: the
			// earlier releases have not woken it.
			h = c.woken(claims[i])
		}
		for i, c := range clients {
			if notifications := c.got(claims[i].ID); len(notifications) != 1 && !t.lacks(store.PromiseNotificationToken) {
				t.Fatalf("waiter %d got notifications %+v, want one", i, notifications)
			}
		}
	}},
	{name: "waiters_of_one_process_are_woken_one_by_one", watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		var claims []store.Claim
		for range 4 {
			w := b.lock(name)
			b.refused(w)
			claims = append(claims, w)
		}
		for i, w := range claims {
			h.release()
			h = b.woken(w)
			for _, later := range claims[i+1:] {
				if early := b.got(later.ID); len(early) != 0 {
					t.Fatalf("got notifications %+v for a claim that still waits", early)
				}
			}
		}
	}},
	{name: "a_release_wakes_all_that_it_grants", watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		r1, r2, w, r3 := b.read(name), c.read(name), b.lock(name), c.read(name)
		b.refused(r1)
		c.refused(r2)
		b.refused(w)
		c.refused(r3)
		h.release()
		t.until("both readers have their notifications", func() bool { return len(b.got(r1.ID)) > 0 && len(c.got(r2.ID)) > 0 })
		one, two := b.woken(r1), c.woken(r2)
		one.release()
		two.release()
		b.woken(w).release()
		c.woken(r3).release()
		t.empty(name)
	}},
	{name: "a_withdrawal_wakes_those_that_it_grants", watch: true, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client().watch(), t.name()
		a.take(a.read(name))
		w, r := b.lock(name), c.read(name)
		b.refused(w)
		c.refused(r)
		b.withdraw(w)
		c.woken(r)
		h := b.lock(name)
		b.refused(h)
		b.withdraw(h)
	}},
	{name: "a_hold_withdrawn_wakes_the_next", watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		a.withdraw(h.claim)
		b.woken(w)
	}},
	{name: "a_break_now_wakes_the_next", watch: true, needs: inspect, run: func(t *trial) {
		a, b, c, name := t.client(), t.client().watch(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		t.breaks(c, h, "because", true)
		b.woken(w)
	}},
	{name: "an_ask_that_finds_a_hold_expired_wakes_the_next", watch: true, run: func(t *trial) {
		t.finds(func(c *client, h *held) { c.refused(c.lock(h.Name)) })
		t.finds(func(c *client, h *held) { c.refused(c.lock(h.Name, try)) })
	}},
	{name: "an_owner_that_learns_of_its_loss_wakes_the_next", watch: true, run: func(t *trial) {
		t.finds(func(c *client, h *held) { t.isLost(h.push(t.long), "renew of an expired hold") })
		t.finds(func(c *client, h *held) { t.isLost(h.c.Release(t.ctx, h.Hold), "release of an expired hold") })
		t.finds(func(c *client, h *held) { h.c.lost(h.claim) })
	}},
	{name: "an_expired_hold_withdrawn_wakes_the_next", watch: true, run: func(t *trial) {
		t.finds(func(c *client, h *held) { h.c.withdraw(h.claim) })
	}},
	{name: "a_renewal_that_finds_another_expired_wakes_the_next", watch: true, needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		stays := a.take(a.slots(name, 2, 1))
		w := b.slots(name, 2, 1)
		goes := a.take(a.slots(name, 2, 1, ttl(t.short)))
		t.soonEnough(!b.ask(w).Granted)
		t.expired(goes.claim)
		stays.renewed()
		b.woken(w)
	}},
	{name: "a_refused_ask_and_a_renewal_notify_no_waiter", watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		for range 3 {
			h.renewed()
			a.refused(a.lock(name, try))
			b.refused(w)
		}
		wrong := h.Hold
		wrong.ID = a.proc.NewID()
		t.isLost(a.Release(t.ctx, wrong), "release with another id")
		h.release()
		b.woken(w) // checks that it is the first notification
	}},
	{name: "a_notification_moves_no_expiry", watch: true, needs: []store.Promise{store.PromiseInspect, store.PromisePositionTTL}, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		h.release()
		t.until("the notification has come", func() bool { return len(b.got(w.ID)) > 0 })
		if e, ok := t.entry(name, w.ID); !ok || e.Expires > w.PositionTTL+t.d.Tick {
			t.Fatalf("after the notification the entry is %+v, want at most %v left", e, w.PositionTTL)
		}
		b.take(w)
	}},
	{name: "a_watch_begun_late_gets_what_comes_after", watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		b.watch()
		b.refused(w) // subscribe, then poll
		h.release()
		b.woken(w)
	}},
}

// finds lets a hold expire while another claim waits for it, calls find, which
// must notice the expiry, and checks that this wakes the waiter.
func (t *trial) finds(find func(*client, *held)) {
	t.Helper()
	a, b, c := t.client(), t.client().watch(), t.client()
	h := a.take(a.read(t.name(), ttl(t.short)))
	w := b.lock(h.Name)
	t.positioned(w)
	t.soonEnough(!b.ask(w).Granted)
	t.expired(h.claim)
	find(c, h)
	b.woken(w)
}

// woken waits for the notification of the claim, takes it, and checks that there was
// one notification for it, with its name and token.
func (c *client) woken(w store.Claim) *held {
	c.t.Helper()
	c.mu.Lock()
	last, waits := c.waits[w.ID]
	c.mu.Unlock()
	if waits && !c.t.lacks(store.PromisePositionTTL) && store.Now().Sub(last) > w.PositionTTL {
		panic(tooSlow) // its position may have lapsed before it could be granted
	}
	var notifications []store.Notification
	c.t.until("the waiter has its notification", func() bool {
		notifications = c.got(w.ID)
		return len(notifications) > 0
	})
	before := time.Now()
	a, err := c.askKept(w)
	if err != nil || !a.Granted {
		c.t.Fatalf("ask after the notification: got %+v, %v, want granted", a, err)
	}
	want := store.Notification{Name: w.Name, ID: w.ID, Token: a.Token, N: a.N}
	notifications = c.got(w.ID)
	if c.t.lacks(store.PromiseNotificationToken) { // it may be false, so there may be more
		want.Token, want.N = 0, 0
		notifications = slices.Compact(notifications)
	}
	if len(notifications) != 1 || notifications[0] != want {
		c.t.Fatalf("got notifications %+v, want only %+v", notifications, want)
	}
	hold := store.Hold{Name: w.Name, ID: w.ID, Token: a.Token, TTL: w.TTL}
	return &held{c: c, claim: w, Hold: hold, n: a.N, before: before, after: time.Now()}
}
