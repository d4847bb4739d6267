package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Everything does all once that a store can, as one process, and fails the test if an answer is not the one of the rule.
// It is for what a store should not depend on: the settings of a connection or of a server. s has nothing stored, and it
// needs no notifications.
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
			t.Fatalf("beside a holder: %+v", a)
		}
	}
	if st := MustList(t, s, "n"); len(st.Entries) != 2 {
		t.Fatalf("listed: %+v", st)
	}
	if err := s.Release(ctx, h); err != nil {
		t.Fatal(err)
	}
	l, err := s.Poll(ctx, w)
	if err != nil || !l.Granted || l.Token <= h.Token {
		t.Fatalf("the waiter sees %+v, %v, after token %d", l, err, h.Token)
	}
	a := MustAsk(t, s, w)
	if !a.Granted || a.Token != l.Token {
		t.Fatalf("the waiter gets %+v, saw %+v", a, l)
	}
	next := store.Hold{Name: "n", ID: w.ID, Token: a.Token, TTL: time.Hour, Used: a.Token}
	if r := s.Renew(ctx, []store.Hold{next}); r[0].Err != nil || r[0].Weight != store.Full {
		t.Fatalf("renewed: %+v", r)
	}
	if e := MustList(t, s, "n").Entries[0]; e.Expires < 59*time.Minute {
		t.Fatalf("renewed, and listed as %+v", e)
	}
	next.TTL = time.Minute
	if err := s.Release(ctx, next); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, next); !errors.Is(err, store.ErrLost) {
		t.Fatalf("released twice: %v", err)
	}
	block := mutex("n")
	block.Block = 10
	a = MustAsk(t, s, block)
	if !a.Granted || a.N != 10 || a.Token <= next.Token || a.Last != a.Token+9 {
		t.Fatalf("a block: %+v", a)
	}
	for _, used := range []int64{5, 2} {
		if r := s.Renew(ctx, []store.Hold{{Name: "n", ID: block.ID, Token: a.Token, TTL: time.Minute, Used: a.Token + used}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		if e := MustList(t, s, "n").Entries[0]; e.Used != a.Token+5 {
			t.Fatalf("told of the block %d, which is listed as %+v", used, e)
		}
	}
	if err := s.Release(ctx, store.Hold{Name: "n", ID: block.ID, Token: a.Token, Used: a.Token + 3}); err != nil {
		t.Fatal(err)
	}
	if next := MustHold(t, s, mutex("n")); next.Token <= a.Token+3 {
		t.Fatalf("after a block of which all but %d was given back: %+v", a.Token+3, next)
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
			t.Fatalf("renewal %d of many: %+v", i, r)
		}
	}
	u := mutex("rw")
	u.Weight = store.Upgradeable
	up := MustHold(t, s, u)
	r := mutex("rw")
	r.Weight = 1
	reader := MustHold(t, s, r)
	if a, err := s.Change(ctx, up, 1, store.Full); err != nil || a.Granted || a.Want != store.Full {
		t.Fatalf("upgrade beside a reader: %+v, %v", a, err)
	}
	if err := s.Release(ctx, reader); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(ctx, []store.Hold{up})[0]; r.Err != nil || r.Weight != store.Full || r.UpgradeToken <= reader.Token {
		t.Fatalf("upgraded: %+v", r)
	}
	if err := s.BreakHold(ctx, store.Break{Name: "rw", ID: up.ID, Token: up.Token, Reason: "it's 'broken'\\"}); err != nil {
		t.Fatal(err)
	}
	var lost *store.LostError
	if r := s.Renew(ctx, []store.Hold{up})[0]; !errors.As(r.Err, &lost) || lost.Reason != "it's 'broken'\\" {
		t.Fatalf("broken: %+v", r)
	}
	names := map[string]bool{}
	for st, err := range s.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names[st.Name] = true
	}
	if len(names) != 6 || names["n"] {
		t.Fatalf("listed: %v", names)
	}
	alone := MustHold(t, s, mutex("alone"))
	if err := s.BreakHold(ctx, store.Break{Name: "alone", ID: alone.ID, Token: alone.Token, Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	if r := s.Renew(ctx, []store.Hold{alone})[0]; !errors.As(r.Err, &lost) || lost.Reason != "it hangs" {
		t.Fatalf("broken, and nobody waits: %+v", r)
	}
}
