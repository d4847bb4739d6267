package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Another process has given a hold of this one a new id, and dies before it has called the owner and moved the hold. The hold then belongs to
// nobody, in a session that goes on.
func TestAHoldWhoseAdopterDiedMidwayIsFreed(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	w := mutex("n") // of the same process
	mustAsk(t, s, w)
	other := second(t, s)
	other.db = &meddled{db: other.db}
	cut(other, &other.do.session.call)
	adopted := h
	adopted.NewID = me.NewID()
	if r := other.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err == nil || store.Definite(r.Err) {
		t.Fatalf("an adoption with an unanswered call: %+v", r)
	}
	dead(other)
	s.claims.mu.Lock()
	s.claims.of[h.ID].seen = 0             // half a TTL later
	s.claims.late = 100 * time.Millisecond // an adopter would have moved it by then
	s.claims.mu.Unlock()
	if r := s.Renew(t.Context(), []store.Hold{h})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Fatalf("renewal: got %+v, want ErrLost", r)
	}
	s.claims.mu.Lock()
	s.claims.late = mostLate // an ask may take its time
	s.claims.mu.Unlock()
	until(t, "the next claim is granted", func() bool { return mustAsk(t, s, w).Granted })
}

// A process that adopts a hold moves it just as the former owner's process removes the orphans that it finds there.
func TestAHoldAdoptedDuringACleanUpOfOrphansStays(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	w := mutex("n") // of the same process: so the row stays
	mustAsk(t, s, w)
	other := second(t, s)
	other.db = &meddled{db: other.db}
	_, back := cut(other, &other.do.session.call)
	adopted := h
	adopted.NewID = store.NewProcess().NewID()
	if r := other.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err == nil || store.Definite(r.Err) {
		t.Fatalf("an adoption with an unanswered call: %+v", r)
	}
	back()
	moved := false
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.release && !moved {
			moved = true
			if r := other.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err != nil {
				t.Errorf("adoption: %v", r.Err)
			}
		}
		return nil
	})
	s.claims.mu.Lock()
	delete(s.claims.of, h.ID) // the store no longer knows the hold
	s.claims.mu.Unlock()
	if err := s.takeOrphans(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if !moved {
		t.Fatal("no orphan was removed: the test shows nothing")
	}
	now := adopted
	now.ID, now.NewID = adopted.NewID, store.ID{}
	if r := other.Renew(t.Context(), []store.Hold{now})[0]; r.Err != nil {
		t.Errorf("the adopted hold: %v", r.Err)
	}
	if a := mustAsk(t, s, w); a.Granted {
		t.Errorf("got %+v, granted while the adopter holds the lock", a)
	}
}
