package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testserver"
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
	until(t, "it has looked", func() bool {
		s.claims.mu.Lock()
		defer s.claims.mu.Unlock()
		return s.claims.strays == 0 && !s.claims.looking
	})
	if e := state(t, other, "stays").Entries; len(e) != 1 || e[0].ID != stays.ID {
		t.Errorf("of what it knows there is %+v", e)
	}
	mustRenew(t, s, stays)
	mustRenew(t, other, theirs)
	mustHold(t, other, mutex("held"))
}

// Another process has given a hold of this one a new id, and dies before it has called its owner and moved it. It is nobody's then, in a session
// that goes on.
func TestAHoldWhoseAdopterHasDiedHalfWayComesFree(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.claims.late = 100 * time.Millisecond
	h, _ := kept(t, s, "n")
	kept(t, s, "stays")
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
	until(t, "the name is free", func() bool { return len(state(t, s, "n").Entries) == 0 })
	if len(state(t, s, "stays").Entries) != 1 {
		t.Error("what its process knows is gone too")
	}
}

// The same by a fail-over: the replica had not received the release, and has the session.
func TestAHoldGivenBackBeforeAFailOverComesFree(t *testing.T) {
	t.Parallel()
	primary := testserver.Postgres(t)
	replica := testserver.PostgresReplica(t, primary)
	pool := poolOn(t, primary.Addr+","+replica.Addr, func(c *pgxpool.Config) {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	})
	s := tableOn(t, pool, nil)
	defer s.Close()
	h, _ := kept(t, s, "given back")
	stays, _ := kept(t, s, "stays")
	theirs, direct := poolOn(t, replica.Addr), poolOn(t, primary.Addr)
	until(t, "the replica has both", func() bool {
		var n int
		err := theirs.QueryRow(t.Context(), "SELECT count(*)::int FROM "+tableOf(s)+" WHERE '' <> ANY (session)").Scan(&n)
		return err == nil && n == 2
	})
	run(t, theirs, "ALTER SYSTEM SET primary_conninfo = ''")
	run(t, theirs, "SELECT pg_reload_conf()")
	until(t, "the replica receives no more", func() bool {
		return pgtest.One[int](t, direct, "SELECT count(*)::int FROM pg_stat_replication") == 0
	})
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	replica.Promote()
	other := tableOn(t, theirs, nil)
	defer other.Close()
	if e := state(t, other, "given back").Entries; len(e) != 1 || e[0].ID != h.ID {
		t.Fatalf("the replica has %+v", e)
	}
	until(t, "the hold that was not given back is renewed", func() bool { return s.Renew(t.Context(), []store.Hold{stays})[0].Err == nil })
	until(t, "the name is free", func() bool { return len(state(t, other, "given back").Entries) == 0 })
	mustRenew(t, s, stays)
	mustHold(t, other, mutex("given back"))
}
