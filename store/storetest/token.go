package storetest

import (
	"github.com/holdfast-go/holdfast/store"
)

var tokens = []store.Promise{store.PromiseTokens}

var tokenPromises = []promise{
	{name: "tokens_grow_with_every_grant", needs: tokens, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		var last int64
		for i := range 30 {
			c := []*client{a, b}[i%2]
			claim := c.lock(name, try)
			if i%3 == 0 {
				claim = c.read(name)
			}
			h := c.take(claim)
			if h.Token <= last {
				t.Fatalf("got token %d after %d, want a larger one", h.Token, last)
			}
			last = h.Token
			h.release()
		}
	}},
	{name: "tokens_grow_along_the_queue", needs: tokens, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		var waiting []store.Claim
		for range 5 {
			w := b.lock(name)
			b.refused(w)
			waiting = append(waiting, w)
		}
		for _, w := range waiting {
			h.release()
			next := b.take(w)
			if next.Token <= h.Token {
				t.Fatalf("got token %d after %d, want a larger one", next.Token, h.Token)
			}
			h = next
		}
	}},
	{name: "tokens_go_on_after_the_name_was_idle", needs: tokens, run: func(t *trial) {
		a, name := t.client(), t.name()
		first := a.take(a.lock(name))
		first.release()
		t.empty(name)
		other := t.client()
		second := other.take(other.lock(name))
		if second.Token <= first.Token {
			t.Fatalf("got token %d, want one larger than %d, from before the name was idle", second.Token, first.Token)
		}
	}},
	{name: "an_idle_name_still_returns_its_newest_token", needs: tokens, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		first := a.take(a.lock(name))
		if r := b.refused(b.lock(name, try)); r.Last < first.Token {
			t.Fatalf("got %d as the newest token, although %d was drawn", r.Last, first.Token)
		}
		first.release()
		r := a.take(a.read(name))
		if l := a.refused(b.lock(name, try)).Last; l < r.Token {
			t.Fatalf("got %d as the newest token, although %d was drawn", l, r.Token)
		}
	}},
	{name: "a_token_is_drawn_at_the_grant_and_not_at_the_append", needs: tokens, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		h := a.take(a.lock(name))
		w := b.lock(name)
		newest := b.refused(w).Last
		if t.lacks(store.PromiseDrawn) {
			someDrawNothing(t, newest, func() int64 { return b.refused(b.lock(name)).Last })
		} else if r := b.refused(b.lock(name)); r.Last != newest {
			t.Fatalf("the newest token changed from %d to %d, although nothing was granted", newest, r.Last)
		}
		if e, ok := t.entry(name, w.ID); ok && e.Token != 0 {
			t.Fatalf("a waiting entry has token %d", e.Token)
		}
		h.release()
		if k := b.take(w); k.Token <= newest {
			t.Fatalf("granted with token %d, although %d was reported before as the newest", k.Token, newest)
		}
	}},
	{name: "concurrent_readers_have_their_own_tokens_above_earlier_ones", needs: tokens, run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		w := a.take(a.lock(name))
		w.release()
		seen := map[int64]bool{}
		var most int64
		var readers []*held
		for range 4 {
			r := b.take(b.read(name))
			if r.Token <= w.Token || seen[r.Token] {
				t.Fatalf("a reader got token %d, after a writer's %d, and next to %v", r.Token, w.Token, seen)
			}
			seen[r.Token], most = true, max(most, r.Token)
			readers = append(readers, r)
		}
		for _, r := range readers {
			r.release()
		}
		if w := a.take(a.lock(name)); w.Token <= most {
			t.Fatalf("a writer got token %d, after a reader's %d", w.Token, most)
		}
	}},
	{name: "the_token_after_an_expiry_is_larger", needs: append(tokens, store.PromiseDeadline), run: func(t *trial) {
		a, b, name := t.client(), t.client(), t.name()
		r1, r2 := a.take(a.read(name, ttl(t.short))), a.take(a.read(name, ttl(t.short)))
		if w := b.wait(b.lock(name)); w.Token <= max(r1.Token, r2.Token) {
			t.Fatalf("got token %d after %d and %d, want a larger one", w.Token, r1.Token, r2.Token)
		}
	}},
}

// someDrawNothing checks that waiting draws no token, on a store where a claim's token is its own number, which a
// majority of several servers accepts. Any majority may answer a refusal, and a server that learned of the grant late
// returns a number above it. So the newest token may go down from one refusal to the next, and up once for each such
// server, but not each time.
func someDrawNothing(t *trial, newest int64, next func() int64) {
	t.Helper()
	const servers = 32 // no store of that kind has more
	all := []int64{newest}
	for range servers {
		all = append(all, next())
		if n := len(all); all[n-1] <= all[n-2] {
			return
		}
	}
	t.Fatalf("the newest token grew with each waiter: %v", all)
}
