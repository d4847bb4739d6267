package pgstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A couple is a primary and a replica that receives what it does, asynchronously.
type couple struct {
	primary, replica *testserver.Server
	there            *pgxpool.Pool // of the replica
}

func newCouple(t *testing.T) *couple {
	t.Helper()
	c := &couple{primary: testserver.Postgres(t)}
	c.replica = testserver.PostgresReplica(t, c.primary)
	c.there = poolOn(t, c.replica.Addr)
	return c
}

// store is on whichever takes writes.
func (c *couple) store(t *testing.T) *Store {
	t.Helper()
	s := tableOn(t, poolOn(t, c.primary.Addr+","+c.replica.Addr, func(config *pgxpool.Config) {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}), nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// cut waits until the replica has all that was written, and has it receive nothing more.
func (c *couple) cut(t *testing.T) {
	t.Helper()
	direct := poolOn(t, c.primary.Addr)
	written := pgtest.One[string](t, direct, "SELECT pg_current_wal_insert_lsn()::text")
	until(t, "the replica has it all", func() bool {
		return pgtest.One[bool](t, c.there, "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written)
	})
	run(t, c.there, "ALTER SYSTEM SET primary_conninfo = ''")
	run(t, c.there, "SELECT pg_reload_conf()")
	until(t, "the replica receives no more", func() bool {
		return pgtest.One[int](t, direct, "SELECT count(*)::int FROM pg_stat_replication") == 0
	})
}

// failOver has the replica take the place of the primary, and returns a store of another process there.
func (c *couple) failOver(t *testing.T) *Store {
	t.Helper()
	c.primary.Kill()
	c.replica.Promote()
	other := tableOn(t, c.there, nil)
	t.Cleanup(func() { other.Close() })
	return other
}

// brief is a claim that ends soon.
func brief(name string, weight int64) store.Claim {
	c := mutex(name)
	c.Weight, c.TTL, c.PositionTTL = weight, 7*time.Second, 7*time.Second
	return c
}

// The replica had received neither a release nor a grant, nor an upgrade. What was given back comes free though its process goes on, what was
// granted is lost for who had it, with its next renewal, and what both servers know is kept as the replica has it.
func TestAfterAFailOverAProcessHasWhatTheReplicaHasAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	s := c.store(t)
	held := func(name string, weight int64) store.Hold {
		h := mustHold(t, s, brief(name, weight))
		mustRenew(t, s, h) // into the session
		return h
	}
	given, stays, upgraded := held("given back", store.Full), held("stays", store.Full), held("upgraded", store.Upgradeable)
	c.cut(t)
	if err := s.Release(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	granted := held("granted", store.Full)
	if a, err := s.Change(t.Context(), upgraded, 1, store.Full); err != nil || a.Weight != store.Full {
		t.Fatalf("Change: %+v, %v", a, err)
	}
	if r := mustRenew(t, s, upgraded); r.Weight != store.Full {
		t.Fatalf("%+v, want what it was upgraded to", r)
	}
	other := c.failOver(t)
	if e := state(t, other, "given back").Entries; len(e) != 1 || e[0].ID != given.ID {
		t.Fatalf("the replica has %+v", e)
	}
	mustHold(t, other, brief("granted", store.Full))
	var all []store.Renewal
	until(t, "what the replica has is renewed", func() bool {
		all = s.Renew(t.Context(), []store.Hold{stays, granted, upgraded})
		return all[0].Err == nil
	})
	if err := all[1].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("what the replica has not: %v, want that it is lost", err)
	}
	if all[2].Err != nil || all[2].Weight != store.Upgradeable {
		t.Errorf("what the replica knows as it was before its upgrade: %+v", all[2])
	}
	until(t, "what was given back is free", func() bool {
		for _, r := range s.Renew(t.Context(), []store.Hold{stays, upgraded}) {
			if r.Err != nil {
				t.Fatalf("what stays: %v", r.Err)
			}
		}
		return mustAsk(t, other, try("given back")).Granted
	})
	if a := mustAsk(t, other, try("stays")); a.Granted {
		t.Errorf("%+v: what is held was granted", a)
	}
}

func try(name string) store.Claim {
	c := mutex(name)
	c.Try = true
	return c
}

// A position that was given up comes free too, and one that was not is kept, in its order.
func TestAfterAFailOverAWaiterKeepsItsPositionAndNoOther(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	s, holder := c.store(t), c.store(t)
	h := mustHold(t, holder, mutex("n"))
	mustRenew(t, holder, h)
	gone, waits := brief("n", store.Full), brief("n", store.Full)
	mustAsk(t, s, gone)
	mustAsk(t, s, waits)
	in := sessionOf(t, s, "n", waits.ID)
	c.cut(t)
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: gone.ID}); err != nil {
		t.Fatal(err)
	}
	other := c.failOver(t)
	if e := state(t, other, "n").Entries; len(e) != 3 || e[1].ID != gone.ID {
		t.Fatalf("the replica has %+v", e)
	}
	last := mutex("n")
	mustAsk(t, other, last)
	asks := func() {
		t.Helper()
		a, err := s.Poll(t.Context(), waits)
		if err == nil && a.From == 0 {
			a, err = s.Ask(t.Context(), waits)
		}
		if err != nil || a.Granted {
			t.Fatalf("%+v, %v", a, err)
		}
		mustAsk(t, other, last)
		mustRenew(t, holder, h)
	}
	until(t, "the server answers", func() bool { _, err := s.Ask(t.Context(), waits); return err == nil })
	until(t, "the position that was given up is gone", func() bool {
		asks()
		mustAsk(t, other, try("n")) // who comes finds the dead
		return len(state(t, other, "n").Entries) == 3 && state(t, other, "n").Entries[1].ID != gone.ID
	})
	if now := sessionOf(t, other, "n", waits.ID); now == in {
		t.Error("it is in the session yet that was on the other server")
	}
	if err := holder.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a := mustAsk(t, other, last); a.Granted {
		t.Errorf("%+v: it was overtaken", a)
	}
	if a := mustAsk(t, s, waits); !a.Granted {
		t.Errorf("%+v, want that it is next", a)
	}
}

// What Describe says of a replica that is promoted: it may grant what is held,
// and with a clock that is behind it draws tokens that are not larger.
func TestAPromotedReplicaHasLostWhatItHadNotReceived(t *testing.T) {
	t.Parallel()
	pair := newCouple(t)
	now := time.Now().UnixMicro()
	ours, err := newStore(onPgx(poolOn(t, pair.primary.Addr)), nil, func() int64 { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	c := mutex("known")
	c.TTL = time.Hour
	known := mustHold(t, ours, c)
	pair.cut(t)
	standby := tableOn(t, pair.there, nil)
	defer standby.Close()
	if _, err := standby.Ask(t.Context(), mutex("anything")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a claim on a standby: %v, want one that says that it is read-only", err)
	}
	c = mutex("news")
	c.TTL = time.Hour
	news := mustHold(t, ours, c)
	pair.failOver(t)

	after, err := newStore(onPgx(pair.there), nil, func() int64 { return now - time.Second.Microseconds() })
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if err := after.Renew(t.Context(), []store.Hold{known})[0].Err; err != nil {
		t.Errorf("what the replica had: %v", err)
	}
	if err := after.Renew(t.Context(), []store.Hold{news})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("what the replica had not: %v, want lost", err)
	}
	a := mustAsk(t, after, mutex("news"))
	if !a.Granted || a.Token >= news.Token {
		t.Errorf("of what it had not heard it grants %+v, want a second hold with a smaller token than %d", a, news.Token)
	}
	d := after.Describe()
	if !slices.Contains(d.Forgets, store.AccidentFailOver) || !strings.Contains(d.Loses, "replica") || !strings.Contains(d.Tokens, "replica") {
		t.Errorf("Describe does not say so: %+v", d)
	}
}

// Not only a begin tells it: a server can be replaced, and nothing begun on the one that follows.
func TestARenewalSaysWhichServerAnswered(t *testing.T) {
	t.Parallel()
	b := sessionTable{newShared(t)}
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, time.Hour); err != nil {
		t.Fatal(err)
	}
	of := b.Server()
	b.server.Store(of + 1)
	if _, err := b.Renew(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if now := b.Server(); now != of || of == 0 {
		t.Errorf("server %d, want %d as when it was begun", now, of)
	}
}
