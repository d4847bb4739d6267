package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A name becomes a hash and a string again. A freed hold stays, in its order, until it is released or expires.
func TestFreedHoldsStayInEachFormOfAName(t *testing.T) {
	t.Parallel()
	now, sh := time.Now().UnixMicro(), shape{2, 1}
	s, err := newStore(clientOf(t, testserver.SharedRedis(t)), apart(), func() int64 { return now }, sh)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := func(ttl time.Duration) store.Hold {
		t.Helper()
		c := mutex("n")
		c.Limit, c.Weight, c.TTL = 3, 1, ttl
		h := mustHold(t, s, c)
		h.TTL = ttl
		return h
	}
	frees := func(h store.Hold, reason string) {
		t.Helper()
		if err := s.BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: reason, Now: true}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, want string, freed, held []store.Hold) {
		t.Helper()
		q, form := stored(t, s, "n", sh)
		var left, holds []store.ID
		for i := range q.Entries {
			if e := &q.Entries[i]; e.Freed() {
				left = append(left, e.ID)
			} else {
				holds = append(holds, e.ID)
			}
		}
		ids := func(all []store.Hold) (out []store.ID) {
			for _, h := range all {
				out = append(out, h.ID)
			}
			return out
		}
		if form != want || !slices.Equal(left, ids(freed)) || !slices.Equal(holds, ids(held)) {
			t.Fatalf("%s: got a %s with %+v, want a %s with %v freed and %v held", what, form, q.Entries, want, ids(freed), ids(held))
		}
	}
	const str, hash = "string with what is freed", "hash with what is freed"

	a := take(time.Minute)
	frees(a, "the first")
	check("alone", str, []store.Hold{a}, nil)
	b, c := take(time.Hour), take(time.Hour)
	check("beside two", hash, []store.Hold{a}, []store.Hold{b, c})
	frees(b, "the second")
	check("two, beside one", hash, []store.Hold{a, b}, []store.Hold{c})
	d := take(3 * time.Hour)
	if r := s.Renew(t.Context(), []store.Hold{d})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	frees(d, "the last")
	frees(c, "the third")
	check("four", str, []store.Hold{a, b, c, d}, nil)
	if left := s.client.PTTL(t.Context(), s.key("n")).Val(); left < store.TokenRetention+3*time.Hour-slack {
		t.Errorf("the key lives for %v, less than its entries", left)
	}
	storetest.IsLostFor(t, "the second", s.Release(t.Context(), b), "the release")
	check("one released", str, []store.Hold{a, c, d}, nil)

	e, f := take(time.Hour), take(time.Hour)
	check("three, beside two", hash, []store.Hold{a, c, d}, []store.Hold{e, f})
	now += (2 * time.Minute).Microseconds()
	if r := s.Renew(t.Context(), []store.Hold{e})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	check("one expired", hash, []store.Hold{c, d}, []store.Hold{e, f})
	storetest.IsLostFor(t, "the third", s.Release(t.Context(), c), "the release in a hash")
	storetest.IsLostFor(t, "the last", s.Renew(t.Context(), []store.Hold{d})[0].Err, "the renewal in a hash")
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: d.ID}); err != nil {
		t.Fatal(err)
	}
	check("none", "hash", nil, []store.Hold{e, f})
	if st := state(t, s, "n"); len(st.Entries) != 2 {
		t.Errorf("got %+v listed, want two", st.Entries)
	}
}
