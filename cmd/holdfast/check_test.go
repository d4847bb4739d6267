package main

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/store"
)

// A holder can have any token of the block that its process drew, or an upgrade
// token: check accepts each of them, and no other.
func TestCheckTakesAnyTokenOfTheBlockAndTheNewestFence(t *testing.T) {
	dir := t.TempDir()
	atHost(t, "")
	s, err := filestore.Open(dir, &filestore.Options{TrustFS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := func(name string, weight int64, block int) store.Hold {
		t.Helper()
		c := store.Claim{Name: name, ID: store.NewProcess().NewID(), Limit: store.Full, Weight: weight, TTL: time.Hour, PositionTTL: time.Second, Block: block}
		a, err := s.Ask(t.Context(), c)
		if err != nil || !a.Granted {
			t.Fatalf("Ask: got %+v, %v, want a grant", a, err)
		}
		return store.Hold{Name: name, ID: c.ID, Token: a.Token, TTL: c.TTL}
	}
	p := &program{store: storeURL("file:" + dir + "?trust-fs=1")}
	check := func(h store.Hold, token int64, held bool) {
		t.Helper()
		err := p.check(t.Context(), h.Name, h.ID, token)
		if held != (err == nil) || err != nil && !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("check of %s, token %d of %d: %v, want held: %v", h.Name, token, h.Token, err, held)
		}
	}

	block := take("block", store.Full, 10)
	check(block, 0, true) // none given
	check(block, block.Token, true)
	check(block, block.Token+5, true)
	check(block, block.Token+9, true)
	check(block, block.Token+10, false)
	check(block, block.Token-1, false)

	up := take("upgraded", store.Upgradeable, 1)
	a, err := s.Change(t.Context(), up, 1, store.Full)
	if err != nil || !a.Granted {
		t.Fatalf("Change: got %+v, %v, want a grant", a, err)
	}
	check(up, up.Token, true)
	check(up, a.UpgradeToken, true)
	check(up, a.UpgradeToken+1, false)
	check(up, 1, false)

	// A list shows the newest of them.
	block.Used = block.Token + 3
	if err := s.Renew(t.Context(), []store.Hold{block})[0].Err; err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"block": block.Token + 3, "upgraded": a.UpgradeToken, "plain": 0}
	take("plain", store.Full, 10)
	for state, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range linesOf([]store.State{state}, time.Now()) {
			if l.Newest != want[l.Name] || l.Upgrade {
				t.Errorf("%s: got %+v listed, want %d as its newest token", l.Name, l, want[l.Name])
			}
		}
	}

	reader := take("pending", 1, 1)
	u := take("pending", store.Upgradeable, 1)
	if a, err := s.Change(t.Context(), u, 1, store.Full); err != nil || a.Granted {
		t.Fatalf("Change beside a reader: got %+v, %v, want a wait", a, err)
	}
	for state, err := range s.List(t.Context(), "pending") {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range linesOf([]store.State{state}, time.Now()) {
			if l.Upgrade != (l.ID == u.ID.String()) || l.ID == reader.ID.String() && l.Mode != "read" {
				t.Errorf("got %+v listed", l)
			}
		}
	}
}
