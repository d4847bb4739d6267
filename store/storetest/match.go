package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var byToken = []store.Promise{store.PromiseMatch}

var matchPromises = []promise{
	{name: "a_repeated_ask_is_the_same_claim", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.read(name))
		for range 3 {
			if again := a.take(h.claim); again.Token != h.Token {
				t.Fatalf("asked again: got token %d, was %d", again.Token, h.Token)
			}
		}
		t.entries(name, h.ID)
		h.release()
		b.take(b.lock(name, try)).release()
		t.empty(name)
	}},
	{name: "a_repeated_ask_takes_no_second_slot", needs: slots, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.slots(name, 2, 1))
		a.take(h.claim)
		asTry := h.claim
		asTry.Try = true
		a.take(asTry)
		k := b.take(b.slots(name, 2, 1, try))
		b.refused(b.slots(name, 2, 1, try))
		h.release()
		k.release()
		t.empty(name)
	}},
	{name: "a_repeated_ask_of_a_waiter_is_one_entry", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		for range 3 {
			b.refused(w)
		}
		t.entries(name, h.ID, w.ID)
		h.release()
		b.take(w).release()
		t.empty(name)
	}},
	{name: "a_last_try_of_a_waiter_is_the_same_claim", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		last := w
		last.Try = true
		b.refused(last)
		t.entries(name, h.ID, w.ID)
		h.release()
		b.take(last).release()
		t.empty(name)
	}},
	{name: "a_release_with_a_wrong_id_is_lost_and_frees_nothing", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		wrong := h.Hold
		wrong.ID = b.proc.NewID()
		t.isLost(b.Release(t.ctx, wrong), "release with another id")
		b.withdraw(store.Claim{Name: name, ID: wrong.ID})
		h.renewed()
		b.refused(b.lock(name, try))
		h.release()
	}},
	{name: "a_release_with_a_wrong_token_is_lost_and_frees_nothing", needs: byToken, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		for _, token := range []int64{h.Token - 1, h.Token + 1, 1} {
			wrong := h.Hold
			wrong.Token = token
			t.isLost(a.Release(t.ctx, wrong), "release with another token")
		}
		b.refused(b.lock(name, try))
		h.renewed()
		h.release()
	}},
	{name: "a_renewal_with_a_wrong_id_is_lost", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		wrong := h.Hold
		wrong.ID = b.proc.NewID()
		t.isLost(b.renew(wrong), "renew with another id")
		t.entries(name, h.ID)
		h.renewed()
		h.release()
	}},
	{name: "a_renewal_with_a_wrong_token_is_lost_and_moves_nothing", needs: byToken, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		granted := t.ticks(max(t.long/2, t.d.MinTTL))
		h := a.take(a.lock(name, ttl(granted)))
		for _, token := range []int64{h.Token - 1, h.Token + 1, 1, 0} {
			wrong := h.Hold
			wrong.Token, wrong.TTL = token, t.long
			t.isLost(a.renew(wrong), "renew with another token")
		}
		if r := b.refused(b.lock(name, try)); !t.lacks(store.PromiseHolders) && r.Holders[0].Expires > granted+t.d.Tick {
			t.Fatalf("the hold expires in %v, granted for %v", r.Holders[0].Expires, granted)
		}
		h.renewed()
		h.release()
	}},
	{name: "a_renewal_of_a_waiting_entry_is_lost_and_moves_nothing", needs: order, run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		last := b.refused(w).Last
		for _, token := range []int64{0, last, last + 1} {
			t.isLost(b.renew(store.Hold{Name: name, ID: w.ID, Token: token, TTL: t.long}), "renew of a waiting entry")
		}
		t.entries(name, h.ID, w.ID)
		if e, ok := t.entry(name, w.ID); ok && (e.Granted || e.Token != 0 || e.Expires > w.PositionTTL+t.d.Tick && !t.lacks(store.PromisePositionTTL)) {
			t.Fatalf("the waiting entry is %+v, want it unchanged, with at most %v left", e, w.PositionTTL)
		}
		if r := c.refused(c.lock(name, try)); r.Holding != 1 || r.Waiting != 1 {
			t.Fatalf("got %d holders and %d waiters, want 1 and 1", r.Holding, r.Waiting)
		}
		h.release()
		b.take(w).release()
	}},
	{name: "a_renewal_keeps_no_position", needs: []store.Promise{store.PromisePositionTTL}, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name, withPositionTTL(t.short))
		last := b.refused(w).Last
		t.until("the position has lapsed", func() bool {
			t.isLost(b.renew(store.Hold{Name: name, ID: w.ID, Token: last, TTL: t.long}), "renew of a waiting entry")
			return a.refused(a.lock(name, try)).Waiting == 0
		})
		h.release()
		a.take(a.lock(name, try)).release()
	}},
	{name: "a_renewal_of_an_absent_entry_is_lost_and_creates_nothing", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		t.isLost(a.renew(store.Hold{Name: name, ID: a.proc.NewID(), Token: 1, TTL: t.long}), "renewal of a hold that never existed")
		t.empty(name)
		h := a.take(a.lock(name))
		h.release()
		t.isLost(h.push(t.long), "renewal after the release")
		t.entries(name)
		h = a.take(a.lock(name))
		h.release()
		k := b.take(b.lock(name, try))
		t.isLost(h.push(t.long), "renewal after the release and the grant of another")
		t.entries(name, k.ID)
		k.renewed()
		k.release()
		t.empty(name)
	}},
	{name: "a_release_of_a_waiting_entry_with_a_token_is_lost", needs: order, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		last := b.refused(w).Last
		t.isLost(b.Release(t.ctx, store.Hold{Name: name, ID: w.ID, Token: last}), "release of a waiting entry with a token")
		t.isLost(b.Release(t.ctx, store.Hold{Name: name, ID: w.ID, Token: last + 1}), "release of a waiting entry with a token")
		t.entries(name, h.ID, w.ID)
		h.release()
		b.take(w).release()
	}},
	{name: "a_repeated_release_never_frees_the_next_holder", run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		h.release()
		t.isLost(a.Release(t.ctx, h.Hold), "second release")
		k := b.take(b.lock(name, try))
		t.isLost(a.Release(t.ctx, h.Hold), "release after the grant of another")
		a.withdraw(h.claim)
		k.renewed()
		c.refused(c.lock(name, try))
		k.release()
		t.empty(name)
	}},
	{name: "a_release_with_token_0_gives_back_whatever_the_id_has", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		a.withdraw(a.lock(name)) // nothing is there
		t.entries(name)
		h := a.take(a.lock(name))
		w := b.lock(name)
		b.refused(w)
		b.withdraw(w) // a position
		b.withdraw(w)
		t.entries(name, h.ID)
		w = b.lock(name)
		b.refused(w)
		a.withdraw(h.claim) // a hold
		k := b.take(w)
		a.withdraw(h.claim)
		t.isLost(h.push(t.long), "renewal after the withdrawal")
		k.renewed()
		b.withdraw(w) // its hold
		t.empty(name)
	}},
	{name: "a_grant_that_was_never_polled_can_be_withdrawn", run: func(t *trial) {
		a, b, c, name := t.client(), t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		gone, next := b.lock(name), c.lock(name)
		b.refused(gone)
		c.refused(next)
		h.release()
		b.withdraw(gone)
		c.take(next).release()
		t.empty(name)
	}},
	{name: "a_batch_of_renewals_answers_each_alone", run: func(t *trial) {
		a, b := t.client(), t.client()
		var holds []store.Hold
		good := map[int]*held{}
		for i := range 12 {
			name := t.name()
			h := a.take(a.read(name))
			hold := h.Hold
			switch i % 4 {
			case 1: // released
				h.release()
			case 2: // the id is of the other process
				hold.ID = b.proc.NewID()
			default:
				good[i] = h
			}
			holds = append(holds, hold)
		}
		out := a.Renew(t.ctx, holds)
		if len(out) != len(holds) {
			t.Fatalf("got %d renewals for %d holds", len(out), len(holds))
		}
		for i, r := range out {
			if good[i] == nil {
				t.isLost(r.Err, "renewal of a lost hold")
				continue
			}
			if r.Err != nil {
				t.Fatalf("renewal %d: got %v, want nil", i, r.Err)
			}
			if r.From == 0 && (r.TTL < holds[i].TTL || r.TTL >= holds[i].TTL+t.d.Tick) {
				t.Fatalf("renewed for %v, want %v", r.TTL, holds[i].TTL)
			}
			good[i].release()
		}
		if out := a.Renew(t.ctx, nil); len(out) != 0 {
			t.Fatalf("got %d renewals for no holds", len(out))
		}
	}},
	{name: "a_batch_of_renewals_may_name_one_name_twice", run: func(t *trial) {
		a, name := t.client(), t.name()
		one, two := a.take(a.read(name)), a.take(a.read(name))
		gone := a.take(a.read(name))
		gone.release()
		out := a.Renew(t.ctx, []store.Hold{one.Hold, gone.Hold, two.Hold, one.Hold})
		if len(out) != 4 || out[0].Err != nil || !errors.Is(out[1].Err, store.ErrLost) || out[2].Err != nil || out[3].Err != nil {
			t.Fatalf("got renewals %+v, want only the second lost", out)
		}
		one.release()
		two.release()
		t.empty(name)
	}},
	{name: "a_renewal_pushes_the_expiry_and_may_be_repeated", needs: []store.Promise{store.PromiseInspect}, run: func(t *trial) {
		a, name := t.client(), t.name()
		longer := t.ticks(min(2*t.long, t.d.MaxTTL))
		h := a.take(a.lock(name))
		for range 3 {
			before := time.Now()
			if err := h.push(longer); err != nil {
				t.Fatalf("renewal: %v", err)
			}
			e, ok := t.entry(name, h.ID)
			if least := longer - time.Since(before) - t.d.Tick - t.slack(longer); !ok || e.Expires < least || e.Expires > longer+t.d.Tick {
				t.Fatalf("the hold expires in %v, renewed for %v", e.Expires, longer)
			}
		}
		h.release()
	}},
}
