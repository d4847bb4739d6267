package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Another process has given a hold of this one a new id, and dies before it has called its owner and moved it. It is nobody's then, in a session
// that goes on.
func TestAHoldWhoseAdopterHasDiedHalfWayComesFree(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.claims.late = 100 * time.Millisecond
	h, _ := kept(t, s, "n")
	w := mutex("n") // of the same process
	mustAsk(t, s, w)
	other := second(t, s)
	other.db = &meddled{db: other.db}
	cut(other, &other.do.session.call)
	adopted := h
	adopted.NewID = me.NewID()
	if r := other.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err == nil || store.Definite(r.Err) {
		t.Fatalf("an adoption whose call was not answered: %+v", r)
	}
	dead(other)
	s.claims.mu.Lock()
	s.claims.of[h.ID].seen = 0 // half a TTL later
	s.claims.mu.Unlock()
	if r := s.Renew(t.Context(), []store.Hold{h})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Fatalf("%+v, want lost", r)
	}
	until(t, "the next has the name", func() bool { return mustAsk(t, s, w).Granted })
}
