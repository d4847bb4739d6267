package storetest

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Large values in the suite are as large as the contract allows: the greatest TTL of the store, names of up to
// MaxName bytes, and these.
const (
	manyHolds   = 1024 // in one batch: more than any store puts into one statement or round trip
	manyEntries = 1000 // of one name: see crowdOf
)

// crowdOf returns how many entries a name gets. Most stores read and write all entries of a name with each operation,
// so a thousand operations on a thousand entries take a server half a minute. A server gets that many only if
// HOLDFAST_NIGHTLY is set and holds can last long enough.
func crowdOf(d *store.Description) int {
	short := d.MaxTTL > 0 && d.MaxTTL <= time.Minute
	if d.InProcess || os.Getenv("HOLDFAST_NIGHTLY") != "" && !short {
		return manyEntries
	}
	return 300
}

var largePromises = []promise{
	{name: "an_ask_for_the_longest_TTL_is_granted_that", needs: deadlines, run: func(t *trial) {
		a := t.client()
		h := a.take(a.lock(t.name(), ttl(t.d.MaxTTL)))
		t.lastsFor(h, t.d.MaxTTL, h.before)
		h.release()

		h = a.take(a.lock(t.name()))
		again := h.claim
		again.TTL = t.d.MaxTTL
		before := time.Now()
		a.take(again)
		t.lastsFor(h, t.d.MaxTTL, before)
		h.release()
	}},
	{name: "a_renewal_for_the_longest_TTL_pushes_the_expiry_that_far", needs: deadlines, run: func(t *trial) {
		a := t.client()
		h := a.take(a.lock(t.name()))
		before := time.Now()
		if err := h.push(t.d.MaxTTL); err != nil {
			t.Fatalf("renewal: %v", err)
		}
		t.lastsFor(h, t.d.MaxTTL, before)
		h.release()
	}},
	{name: "the_longest_minimum_hold_keeps_the_name_taken_that_long", needs: minHold, run: func(t *trial) {
		a, b := t.client(), t.client()
		h := a.take(a.lock(t.name(), withMinHold(t.d.MaxTTL)))
		h.release()
		t.closed(b.refused(b.lock(h.Name, try)), h, t.d.MaxTTL)
	}},
	{name: "the_longest_lock_delay_keeps_the_name_closed_that_long", needs: lockDelay, run: func(t *trial) {
		a, b := t.client(), t.client()
		h := a.take(a.lock(t.name(), withLockDelay(t.d.MaxTTL), ttl(t.short)))
		t.expired(h.claim)
		t.closed(b.refused(b.lock(h.Name, try)), h, t.d.MaxTTL)
	}},
	{name: "a_hold_that_is_renewed_lasts_as_long_as_the_longest_TTL", needs: deadlines, bubble: true, run: func(t *trial) {
		a, b := t.client(), t.client()
		h := a.take(a.lock(t.name(), ttl(t.d.MaxTTL)))
		for range 3 {
			time.Sleep(t.d.MaxTTL - t.long/2)
			b.refused(b.lock(h.Name, try))
			h.renewed()
		}
		h.release()
		b.take(b.lock(h.Name, try)).release()
	}},
	{name: "Renew_and_ReleaseAll_take_a_thousand", run: func(t *trial) {
		a, head := t.client(), t.name()
		// Names of every length, so that in a store that cuts long ones two are the same. Each name has two or three
		// readers: with twice as many names some stores begin to clean up, which would wake waiters of other subtests.
		lengths := store.MaxName + 1 - len(head)
		all := a.many(manyHolds, func(i int) store.Claim { return a.read(head + strings.Repeat("n", i%lengths)) })

		since := time.Now()
		longer := a.renewAll(all)
		if !t.lacks(store.PromiseInspect) {
			of, listed := map[string]int{}, map[string]int{}
			for _, h := range all {
				of[h.Name]++
			}
			for st, err := range a.Store.(store.Inspector).List(t.ctx, "") {
				if of[st.Name] == 0 {
					continue // of another subtest
				}
				if err != nil {
					t.Fatalf("list: %v", err)
				}
				listed[st.Name] += len(st.Entries)
				t.pushed(st, longer, since)
			}
			for name, n := range of {
				if listed[name] != n {
					t.Fatalf("the list of all names has %d entries of a name of %d bytes, want %d", listed[name], len(name), n)
				}
			}
		}
		a.releaseAll(all...)
		b := t.client()
		for i := lengths - 1; i >= 0; i -= 73 {
			b.take(b.lock(all[i].Name, try)).release()
		}
	}},
	{name: "a_thousand_hold_one_name_and_each_is_there", run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		n := crowdOf(&t.d)
		all := a.many(n, func(int) store.Claim { return a.read(name) })
		if r := b.refused(b.lock(name, try)); r.Holding != n && !t.lacks(store.PromiseHolders) {
			t.Fatalf("the refusal reports %d holders, want %d", r.Holding, n)
		}
		since := time.Now()
		longer := a.renewAll(all)
		if !t.lacks(store.PromiseInspect) {
			st, _ := t.state(name)
			t.pushed(st, longer, since)
			tokens := map[store.ID]int64{}
			for _, e := range st.Entries {
				tokens[e.ID] = e.Token
			}
			if len(st.Entries) != n {
				t.Fatalf("got %d entries in the list, want %d", len(st.Entries), n)
			}
			for _, h := range all {
				if tokens[h.ID] != h.Token {
					t.Fatalf("%v holds the name with token %d, but is listed with %d", h.ID, h.Token, tokens[h.ID])
				}
			}
		}
		a.releaseAll(all...)
		t.empty(name)
	}},
	{name: "a_release_wakes_all_of_a_crowd", watch: true, run: func(t *trial) {
		a, b, name := t.client(), t.client().watch(), t.name()
		h := a.take(a.lock(name))
		began := store.Now()
		n := 75
		if t.d.InProcess {
			n = 250
		}
		waiting := make([]store.Claim, n)
		for i := range waiting {
			waiting[i] = b.read(name)
			b.refused(waiting[i])
			if store.Now().Sub(began) > waiting[0].PositionTTL {
				panic(tooSlow) // the first of them may have lapsed
			}
		}
		h.release()
		var all []*held
		for _, w := range waiting {
			all = append(all, b.woken(w))
		}
		b.releaseAll(all...)
		t.empty(name)
	}},
}

// many takes n claims that fit together, several at a time.
func (c *client) many(n int, claim func(i int) store.Claim) []*held {
	c.t.Helper()
	all := make([]*held, n)
	lasts := min(10*c.t.long, c.t.d.MaxTTL) // a server may be slow
	began := store.Now()
	const workers = 16
	var taking sync.WaitGroup
	for worker := range workers {
		taking.Go(func() {
			for i := worker; i < n; i += workers {
				if all[i] = c.inCrowd(lasting(claim(i), lasts)); all[i] == nil {
					return
				}
			}
		})
	}
	taking.Wait()
	c.t.crowdEnded()
	if !c.t.lacks(store.PromiseDeadline) && store.Now().Sub(began) > lasts/2 {
		panic(tooSlow) // the first of them are about to expire
	}
	return all
}

// renewAll renews holds that must not be lost, in one call, for longer than before if the store allows it.
func (c *client) renewAll(all []*held) (longer time.Duration) {
	t := c.t
	t.Helper()
	longer = t.ticks(min(20*t.long, t.d.MaxTTL))
	var batch []store.Hold
	for _, h := range all {
		hold := h.Hold
		hold.TTL = longer
		batch = append(batch, hold)
	}
	out := c.Renew(t.ctx, batch)
	if len(out) != len(batch) {
		t.Fatalf("got %d renewals for %d holds", len(out), len(batch))
	}
	for i, r := range out {
		if r.Err != nil {
			t.Fatalf("renewal %d of %d: %v", i, len(out), r.Err)
		}
		if r.From == 0 && (r.TTL < longer || r.TTL >= longer+t.d.Tick) {
			t.Fatalf("renewal %d of %d: renewed for %v, want %v", i, len(out), r.TTL, longer)
		}
	}
	return longer
}

// pushed checks that all entries of a name last for longer from since, when they were renewed.
func (t *trial) pushed(st store.State, longer time.Duration, since time.Time) {
	t.Helper()
	if t.lacks(store.PromiseDeadline) {
		return
	}
	for i, e := range st.Entries {
		if least := longer - time.Since(since) - t.d.Tick - t.slack(longer); e.Expires < least {
			t.Fatalf("entry %d of %d, of a name of %d bytes, expires in %v, renewed for %v", i, len(st.Entries), len(st.Name), e.Expires, longer)
		}
	}
}

// lasting returns the claim with another TTL.
func lasting(claim store.Claim, d time.Duration) store.Claim {
	claim.TTL = d
	return claim
}

// lastsFor checks that a hold lasts for d from an ask or a renewal that was sent no sooner than before: by the
// list, and by the holders of a refusal.
func (t *trial) lastsFor(h *held, d time.Duration, before time.Time) {
	t.Helper()
	check := func(how string, e store.Entry) {
		t.Helper()
		if least := d - time.Since(before) - t.d.Tick - t.slack(d); e.ID != h.ID || e.Expires < least || e.Expires > d+t.d.Tick {
			t.Fatalf("%s: got %+v, want one that expires in %v to %v", how, e, least, d)
		}
	}
	if e, ok := t.entry(h.Name, h.ID); ok {
		check("the list", e)
	}
	if b := t.client(); !t.lacks(store.PromiseHolders) {
		if e := b.refused(b.lock(h.Name, try)).Holders[0]; e.Expires != 0 || e.Ends != 0 { // otherwise it is unknown
			check("a refusal", e)
		}
	}
}

// closed checks that an ended hold still blocks for d.
func (t *trial) closed(r store.Answer, h *held, d time.Duration) {
	t.Helper()
	least := d - time.Since(h.before) - 2*t.d.Tick
	if e := r.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends < least {
		t.Fatalf("blocked by %+v, want the hold that has ended, for at least %v", e, least)
	}
	if !t.lacks(store.PromiseUntil) && r.Until < least {
		t.Fatalf("got until %v, want at least %v", r.Until, least)
	}
}
