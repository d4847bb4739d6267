package pgstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// A replica that had not received a release was promoted. The session goes on, and keeps what its process knows nothing of any more: a hold,
// and a position. What it does know stays.
func TestWhatComesBackWithAnotherServerIsTakenOut(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, in := kept(t, s, "held")
	stays, _ := kept(t, s, "stays")
	theirs, _ := kept(t, other, "waits")
	w := mutex("waits")
	mustAsk(t, s, w)
	back := pgtest.One[string](t, poolOf(s), "SELECT jsonb_agg(to_jsonb(t))::text FROM "+tableOf(s)+" t WHERE name IN ('held', 'waits')")
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "waits", ID: w.ID}); err != nil {
		t.Fatal(err)
	}
	run(t, poolOf(s), "DELETE FROM "+tableOf(s)+" WHERE name IN ('held', 'waits')")
	run(t, poolOf(s), "INSERT INTO "+tableOf(s)+" SELECT (jsonb_populate_record(NULL::"+tableOf(s)+", r)).* FROM jsonb_array_elements($1::jsonb) r", back)
	if e := state(t, s, "held").Entries; len(e) != 1 || len(state(t, s, "waits").Entries) != 2 || sessionOf(t, s, "held", h.ID) != in {
		t.Fatalf("it did not come back: %+v", e)
	}
	s.server.Store(1) // that was another one
	mustRenew(t, s, stays)
	until(t, "what came back is gone", func() bool {
		return len(state(t, other, "held").Entries) == 0 && len(state(t, other, "waits").Entries) == 1
	})
	mustRenew(t, s, stays)
	mustRenew(t, other, theirs)
	mustHold(t, other, mutex("held"))
}
