package storetest

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

var givesUp = []store.Promise{store.PromiseGiveUp}

// asking makes a claim ask the holders to give up.
func asking(reason string) func(*store.Claim) {
	return func(c *store.Claim) { c.GiveUp = reason }
}

var giveUpPromises = []promise{
	{name: "a_renewal_says_why_a_waiter_asks_to_give_up", needs: givesUp, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		h.asked("")
		w := b.lock(name, asking("a newer version waits"))
		b.refused(w)
		h.asked("a newer version waits")
		h.asked("a newer version waits")
		b.withdraw(w)
		h.askedNext("a newer version waits", "")
	}},
	{name: "a_waiter_can_ask_to_give_up_later_or_no_more", needs: givesUp, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		h.asked("")
		w.GiveUp = "it takes long"
		b.refused(w)
		h.asked("it takes long")
		w.GiveUp = ""
		b.refused(w)
		h.askedNext("it takes long", "")
	}},
	{name: "the_first_waiter_that_asks_to_give_up_is_heard", needs: givesUp, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		first, second := b.lock(name, asking("first")), b.lock(name, asking("second"))
		b.refused(b.lock(name))
		b.refused(first)
		b.refused(second)
		h.asked("first")
		b.withdraw(first)
		h.askedNext("first", "second")
	}},
	{name: "a_try_asks_no_holder_to_give_up", needs: givesUp, watch: true, run: func(t *trial) {
		a, b, name := t.client().watch(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		b.refused(b.lock(name, try, asking("please")))
		h.asked("")
		w := b.lock(name)
		b.refused(w)
		h.release()
		b.woken(w) // what was sent before it has come
		if early := a.got(h.ID); len(early) != 0 {
			t.Fatalf("got notifications %+v for a try", early)
		}
	}},
	{name: "a_granted_claim_asks_no_holder_to_give_up", needs: givesUp, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name, asking("please"))
		b.refused(w)
		h.release()
		b.take(w).asked("")
	}},
	{name: "a_claim_granted_while_a_waiter_asks_is_asked_too", needs: givesUp, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		second := b.lock(name, ttl(store.MaxPositionTTL)) // one session keeps it while it waits and while it holds
		b.refused(second)
		c.refused(c.lock(name, asking("please")))
		h.release()
		b.take(second).asked("please")
	}},
	{name: "a_holder_is_notified_that_a_waiter_asks_to_give_up", needs: givesUp, watch: true, run: func(t *trial) {
		a, b, name := t.client().watch(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name, asking("please"))
		b.refused(w)
		t.until("the holder has its notification", func() bool { return len(a.got(h.ID)) > 0 })
		if all, want := a.got(h.ID), (store.Notification{Name: name, ID: h.ID}); all[0] != want {
			t.Fatalf("got notifications %+v, want %+v", all, want)
		}
		h.asked("please")
	}},
	{name: "a_holder_is_notified_once_that_it_is_asked_to_give_up", needs: givesUp, watch: true, run: func(t *trial) {
		a, b, name := t.client().watch(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name, asking("please"))
		b.refused(w)
		b.refused(w)
		b.refused(w)
		h.release()
		b.woken(w) // what was sent before it has come
		if all := slices.Compact(a.got(h.ID)); len(a.got(h.ID)) > 1 {
			t.Fatalf("got %d notifications %+v for one waiter", len(a.got(h.ID)), all)
		}
	}},
	{name: "every_holder_is_asked_to_give_up", needs: givesUp, watch: true, run: func(t *trial) {
		a, b, c, name := t.client().watch(), t.client().watch(), t.client(), t.name()
		one, two := a.take(a.read(name)), b.take(b.read(name))
		c.refused(c.lock(name, asking("please")))
		t.until("both have their notifications", func() bool { return len(a.got(one.ID)) > 0 && len(b.got(two.ID)) > 0 })
		one.asked("please")
		two.asked("please")
	}},
	{name: "a_list_shows_which_waiter_asks_to_give_up", needs: append(inspect, givesUp...), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w, x := b.lock(name), b.lock(name, asking("please ü"))
		b.refused(w)
		b.refused(x)
		for id, want := range map[store.ID]string{h.ID: "", w.ID: "", x.ID: "please ü"} {
			if e, ok := t.entry(name, id); !ok || e.GiveUp != want {
				t.Fatalf("listed as %+v, %v, want the reason %q", e, ok, want)
			}
		}
	}},
}

// asks makes the changes of the hold ask the other holders to give up.
func (h *held) asks(reason string) { h.GiveUp = reason }

// notified waits for a notification of the hold, which must have no token.
func (c *client) notified(h *held) {
	c.t.Helper()
	c.t.until("a holder has its notification", func() bool { return len(c.got(h.ID)) > 0 })
	if all, want := c.got(h.ID), (store.Notification{Name: h.Name, ID: h.ID}); all[0] != want {
		c.t.Fatalf("got notifications %+v, want %+v", all, want)
	}
}

// tellsLost renews a hold that must be lost for the reason.
func (h *held) tellsLost(reason string) {
	t := h.c.t
	t.Helper()
	var lost *store.LostError
	if err := h.push(h.claim.TTL); !errors.As(err, &lost) || lost.Reason != reason {
		t.Fatalf("renewal of a broken hold: got %v, want it lost with the reason %q", err, reason)
	}
}

// asked renews the hold and checks why it is asked to be given up.
func (h *held) asked(want string) {
	t := h.c.t
	t.Helper()
	if r := h.renewal(h.claim.TTL); r.Err != nil || r.GiveUp != want {
		t.Fatalf("got renewal %+v, want it asked to give up with the reason %q", r, want)
	}
}

// askedNext renews the hold until it is no longer asked for the previous reason, and
// checks the next reason. With several servers a withdrawn reason is returned until the
// last server has learned of that.
func (h *held) askedNext(before, want string) {
	t := h.c.t
	t.Helper()
	t.until("the reason "+before+" is withdrawn", func() bool {
		r := h.renewal(h.claim.TTL)
		if r.Err != nil || r.GiveUp != before && r.GiveUp != want {
			t.Fatalf("got renewal %+v, want it asked to give up with the reason %q", r, want)
		}
		return r.GiveUp == want
	})
}
