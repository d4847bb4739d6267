//go:build linux || darwin

package filestore

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// A hold is tied to its process until one write gives it an id of no process. From
// then on the death of that process does not end it, but that of the adopter does.
func TestADetachedHoldOutlivesItsProcessAndEndsWithItsAdopter(t *testing.T) {
	dir := t.TempDir()
	s, adopter := open(t, dir), open(t, dir)
	defer s.Close()
	owner := start(t, "detach", dir, "name")
	owner.says("holding")
	id, err := store.ParseID(owner.says("detached"))
	if err != nil {
		t.Fatal(err)
	}
	owner.kill()
	if free(t, s, "name") {
		t.Fatal("the name is free after the death of the process that detached the hold")
	}
	var token int64
	for st, err := range s.List(t.Context(), "name") {
		if err != nil || len(st.Entries) != 1 || st.Entries[0].ID != id || st.Entries[0].Expires <= 0 {
			t.Fatalf("got %+v, %v in the list, want the detached hold alone", st, err)
		}
		token = st.Entries[0].Token
	}
	again := store.Claim{Name: "name", ID: id, Limit: store.Full, Weight: store.Full, TTL: lockOf(id.Process(), "").TTL}
	if a, err := s.Ask(t.Context(), again); err != nil || a.Token != token {
		t.Fatalf("asked again with its id: got %+v, %v, want the same token", a, err) // this ask must not tie the hold to s
	}

	p := store.NewProcess()
	h := store.Hold{Name: "name", ID: id, Token: token, TTL: again.TTL, NewID: p.NewID()}
	for range 2 { // the reply was lost
		if err := adopter.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Fatal("adoption:", err)
		}
	}
	late := h
	late.NewID = store.NewProcess().NewID()
	if err := s.Renew(t.Context(), []store.Hold{late})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Fatalf("second adoption: got %v, want ErrLost", err)
	}
	if free(t, s, "name") {
		t.Fatal("the name is free, although the adopter is alive")
	}
	if err := adopter.Close(); err != nil {
		t.Fatal(err)
	}
	if !free(t, s, "name") {
		t.Fatal("the name is not free after the death of the adopter")
	}
}

// A reader that dies does not block an upgrade: the upgrader gets a notification, and
// a renewal or the repeated change finds the dead reader.
func TestAnUpgradeIsGrantedWhenTheBlockingReaderIsKilled(t *testing.T) {
	for what, looks := range map[string]func(*Store, store.Hold) (bool, error){
		"found by a renewal": func(s *Store, h store.Hold) (bool, error) {
			r := s.Renew(context.Background(), []store.Hold{h})[0]
			return r.Weight == store.Full && r.UpgradeToken > h.Token, r.Err
		},
		"found by the repeated change": func(s *Store, h store.Hold) (bool, error) {
			a, err := s.Change(context.Background(), h, 1, store.Full)
			return a.Granted && a.UpgradeToken > h.Token, err
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			defer s.Close()
			reader := start(t, "read", dir, "name")
			reader.says("reading")
			w, err := newWaiter(s)
			if err != nil {
				t.Fatal(err)
			}
			c := lockOf(w.p, "name")
			c.Weight = store.Upgradeable
			a, err := s.Ask(t.Context(), c)
			if err != nil || !a.Granted {
				t.Fatalf("%+v, %v", a, err)
			}
			h := store.Hold{Name: "name", ID: c.ID, Token: a.Token, TTL: c.TTL}
			if a, err := s.Change(t.Context(), h, 1, store.Full); err != nil || a.Granted {
				t.Fatalf("while the reader lives: got %+v, %v, want refused", a, err)
			}
			if is, err := looks(s, h); err != nil || is {
				t.Fatalf("while the reader lives: got %v, %v, want no upgrade", is, err)
			}
			reader.kill()
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			for {
				select {
				case <-w.notifications:
				case <-ctx.Done():
					t.Fatal("the upgrader was not notified")
				}
				if is, err := looks(s, h); err != nil {
					t.Fatal(err)
				} else if is {
					return
				}
			}
		})
	}
}
