package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Everything calls every operation of a store, as one process, and fails the test if an answer is not that of the rule. Use it to test that a store does not depend on the settings of a connection or of a server. s must have
// nothing stored, and needs no notifications.
func Everything(t *testing.T, s interface {
	store.Store
	store.Inspector
	store.Poller
}) {
	t.Helper()
	ctx, me := t.Context(), store.NewProcess()
	mutex := func(name string) store.Claim { return Mutex(me, name) }
	h, w := MustHold(t, s, mutex("n")), mutex("n")
	w.Owner = ""
	for range 2 {
		if a := MustAsk(t, s, w); a.Granted || a.Holding != 1 || a.Holders[0].ID != h.ID {
			t.Fatalf("while another holds it: got %+v", a)
		}
	}
	if st := MustList(t, s, "n"); len(st.Entries) != 2 {
		t.Fatalf("got state %+v", st)
	}
	if err := s.Release(ctx, h); err != nil {
		t.Fatal(err)
	}
	l, err := s.Poll(ctx, w)
	if err != nil || !l.Granted || l.Token <= h.Token {
		t.Fatalf("poll of the waiter: got %+v, %v, after token %d", l, err, h.Token)
	}
	a := MustAsk(t, s, w)
	if !a.Granted || a.Token != l.Token {
		t.Fatalf("ask of the waiter: got %+v, want as in the poll, %+v", a, l)
	}
	next := store.Hold{Name: "n", ID: w.ID, Token: a.Token, TTL: time.Hour, Used: a.Token}
	if r := s.Renew(ctx, []store.Hold{next}); r[0].Err != nil || r[0].Weight != store.Full {
		t.Fatalf("renewal: got %+v", r)
	}
	if e := MustList(t, s, "n").Entries[0]; e.Expires < 59*time.Minute {
		t.Fatalf("after the renewal the entry is %+v", e)
	}
	next.TTL = time.Minute
	if err := s.Release(ctx, next); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, next); !errors.Is(err, store.ErrLost) {
		t.Fatalf("second release: got %v, want ErrLost", err)
	}
	block := mutex("n")
	block.Block = 10
	a = MustAsk(t, s, block)
	if !a.Granted || a.N != 10 || a.Token <= next.Token || a.Last != a.Token+9 {
		t.Fatalf("a block: got %+v", a)
	}
	for _, used := range []int64{5, 2} {
		if r := s.Renew(ctx, []store.Hold{{Name: "n", ID: block.ID, Token: a.Token, TTL: time.Minute, Used: a.Token + used}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		if e := MustList(t, s, "n").Entries[0]; e.Used != a.Token+5 {
			t.Fatalf("used up to %d, but the entry is %+v", used, e)
		}
	}
	if err := s.Release(ctx, store.Hold{Name: "n", ID: block.ID, Token: a.Token, Used: a.Token + 3}); err != nil {
		t.Fatal(err)
	}
	if next := MustHold(t, s, mutex("n")); next.Token <= a.Token+3 {
		t.Fatalf("a block was released with all after %d unused, but the next hold is %+v", a.Token+3, next)
	} else if err := s.Release(ctx, next); err != nil {
		t.Fatal(err)
	}

	var holds []store.Hold
	for i := range 5 {
		holds = append(holds, MustHold(t, s, mutex(fmt.Sprint("many/", i))))
	}
	holds[2].Token++
	for i, r := range s.Renew(ctx, holds) {
		if lost := errors.Is(r.Err, store.ErrLost); lost != (i == 2) || !lost && (r.Err != nil || r.Weight != store.Full) {
			t.Fatalf("renewal %d of many: got %+v", i, r)
		}
	}
	u := mutex("rw")
	u.Weight = store.Upgradeable
	up := MustHold(t, s, u)
	r := mutex("rw")
	r.Weight = 1
	reader := MustHold(t, s, r)
	if a, err := s.Change(ctx, up, 1, store.Full); err != nil || a.Granted || a.Want != store.Full {
		t.Fatalf("upgrade while another reads: got %+v, %v", a, err)
	}
	if err := s.Release(ctx, reader); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(ctx, []store.Hold{up})[0]; r.Err != nil || r.Weight != store.Full || r.UpgradeToken <= reader.Token {
		t.Fatalf("after the upgrade: got %+v", r)
	}
	if err := s.BreakHold(ctx, store.Break{Name: "rw", ID: up.ID, Token: up.Token, Reason: "it's 'broken'\\"}); err != nil {
		t.Fatal(err)
	}
	var lost *store.LostError
	if r := s.Renew(ctx, []store.Hold{up})[0]; !errors.As(r.Err, &lost) || lost.Reason != "it's 'broken'\\" {
		t.Fatalf("renewal of the broken hold: got %+v", r)
	}
	names := map[string]bool{}
	for st, err := range s.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names[st.Name] = true
	}
	if len(names) != 6 || names["n"] {
		t.Fatalf("got names %v in the list", names)
	}
	out := s.ReleaseAll(ctx, holds)
	if len(out) != len(holds) {
		t.Fatalf("%d answers to the release of %d", len(out), len(holds))
	}
	for i, err := range out {
		if lost := errors.Is(err, store.ErrLost); lost != (i == 2) || !lost && err != nil {
			t.Fatalf("release %d of many: %v", i, err)
		}
		after := mutex(holds[i].Name)
		after.Try = true
		if a := MustAsk(t, s, after); a.Granted != (i != 2) || a.Granted && a.Token <= holds[i].Token {
			t.Fatalf("after release %d of many: %+v", i, a)
		}
	}
	alone := MustHold(t, s, mutex("alone"))
	if err := s.BreakHold(ctx, store.Break{Name: "alone", ID: alone.ID, Token: alone.Token, Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(ctx, []store.Hold{alone})[0]; !errors.As(r.Err, &lost) || lost.Reason != "it hangs" {
		t.Fatalf("renewal of the broken hold, without waiters: got %+v", r)
	}
}
