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
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// couple is a primary and its asynchronous replica.
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

// store returns a store on the server that takes writes.
func (c *couple) store(t *testing.T) *Store {
	t.Helper()
	s := tableOn(t, poolOn(t, c.primary.Addr+","+c.replica.Addr, func(config *pgxpool.Config) {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}), nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// cut waits until the replica has all that was written, and then stops replication.
func (c *couple) cut(t *testing.T) {
	t.Helper()
	direct := poolOn(t, c.primary.Addr)
	written := pgtest.One[string](t, direct, "SELECT pg_current_wal_insert_lsn()::text")
	until(t, "the replica has all rows", func() bool {
		return pgtest.One[bool](t, c.there, "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written)
	})
	run(t, c.there, "ALTER SYSTEM SET primary_conninfo = ''")
	run(t, c.there, "SELECT pg_reload_conf()")
	until(t, "the replica receives nothing more", func() bool {
		return pgtest.One[int](t, direct, "SELECT count(*)::int FROM pg_stat_replication") == 0
	})
}

// failOver promotes the replica, and returns a store of another process there.
func (c *couple) failOver(t *testing.T) *Store {
	t.Helper()
	c.primary.Kill()
	c.replica.Promote()
	other := tableOn(t, c.there, nil)
	t.Cleanup(func() { other.Close() })
	return other
}

// failsOver tries what must be done before the claims of a process have expired on the replica.
func failsOver(t *testing.T, f func(ttl time.Duration) (inTime bool)) {
	t.Helper()
	longer(t, 7*time.Second, "all holds expired before the fail-over", f)
}

// brief returns a claim that expires soon.
func brief(name string, weight int64, ttl time.Duration) store.Claim {
	c := mutex(name)
	c.Weight, c.TTL, c.PositionTTL = weight, ttl, min(ttl, store.MaxPositionTTL)
	return c
}

// The replica had received neither a release nor a grant, nor an upgrade. A released lock becomes free though its process lives on. A granted
// one is lost for its holder, with the next renewal. What both servers know is kept as the replica has it.
func TestAfterAFailOverAProcessHasWhatTheReplicaHasAndNothingElse(t *testing.T) {
	t.Parallel()
	failsOver(t, func(ttl time.Duration) bool { return holdsFailOver(t, ttl) })
}

func holdsFailOver(t *testing.T, ttl time.Duration) (inTime bool) {
	t.Helper()
	c := newCouple(t)
	s := c.store(t)
	lasts := store.Now().Add(ttl) // what is held now, here and on either server; renewals extend it
	held := func(name string, weight int64) store.Hold {
		h := mustHold(t, s, brief(name, weight, ttl))
		mustRenew(t, s, h) // moves it into the session
		return h
	}
	given, stays, upgraded := held("given back", store.Full), held("stays", store.Full), held("upgraded", store.Upgradeable)
	c.cut(t)
	if err := s.Release(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	granted := held("granted", store.Full)
	if a, err := s.Change(t.Context(), upgraded, 1, store.Full); err != nil || a.Weight != store.Full {
		t.Fatalf("Change: got %+v, %v", a, err)
	}
	if r := mustRenew(t, s, upgraded); r.Weight != store.Full {
		t.Fatalf("got %+v, want the weight of the upgrade", r)
	}
	other := c.failOver(t)
	if e := state(t, other, "given back").Entries; len(e) != 1 || e[0].ID != given.ID {
		if store.Now() > lasts {
			return false
		}
		t.Fatalf("the replica has %+v, want the released hold", e)
	}
	mustHold(t, other, brief("granted", store.Full, ttl))
	var all []store.Renewal
	until(t, "the replica reports for each hold whether it has it", func() bool {
		all = s.Renew(t.Context(), []store.Hold{stays, granted, upgraded})
		return !slices.ContainsFunc(all, func(r store.Renewal) bool { return r.Err != nil && !store.Definite(r.Err) })
	})
	if (all[0].Err != nil || all[2].Err != nil) && store.Now() > lasts {
		return false
	}
	if err := all[0].Err; err != nil {
		t.Errorf("the hold that the replica has: %v", err)
	}
	if err := all[1].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("the hold that the replica lacks: %v, want ErrLost", err)
	}
	if all[2].Err != nil || all[2].Weight != store.Upgradeable {
		t.Errorf("the hold that the replica has from before its upgrade: got %+v", all[2])
	}
	lasts = all[0].From.Add(all[0].TTL)
	lost := false
	testwait.UntilPast(t, 2*ttl, "the released name is free", func() bool { // its session keeps nothing else, and ends then
		for _, r := range s.Renew(t.Context(), []store.Hold{stays, upgraded}) {
			switch {
			case r.Err == nil:
				lasts = r.From.Add(r.TTL)
			case store.Definite(r.Err) && store.Now() > lasts:
				lost = true
			case store.Definite(r.Err):
				t.Fatalf("the hold that stays: %v", r.Err)
			}
		}
		return lost || mustAsk(t, other, try("given back")).Granted
	})
	if a := mustAsk(t, other, try("stays")); a.Granted && store.Now() < lasts {
		t.Errorf("got %+v: the held name was granted", a)
	}
	return store.Now() < lasts
}

func try(name string) store.Claim {
	c := mutex(name)
	c.Try = true
	return c
}

// A position that was given up becomes free too, and one that was not is kept, in its order.
func TestAfterAFailOverAWaiterKeepsItsPositionAndNoOther(t *testing.T) {
	t.Parallel()
	failsOver(t, func(ttl time.Duration) bool { return positionsFailOver(t, ttl) })
}

func positionsFailOver(t *testing.T, ttl time.Duration) (inTime bool) {
	t.Helper()
	c := newCouple(t)
	s, holder := c.store(t), c.store(t)
	h := mustHold(t, holder, mutex("n"))
	mustRenew(t, holder, h)
	gone, waits := brief("n", store.Full, ttl), brief("n", store.Full, ttl)
	ttl = waits.PositionTTL
	lasts := store.Now().Add(ttl) // the position, here and on either server; answered asks extend it
	mustAsk(t, s, gone)
	mustAsk(t, s, waits)
	in := sessionOf(t, s, "n", waits.ID)
	c.cut(t)
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: gone.ID}); err != nil {
		t.Fatal(err)
	}
	other := c.failOver(t)
	if e := state(t, other, "n").Entries; len(e) != 3 || e[1].ID != gone.ID {
		if store.Now() > lasts {
			return false
		}
		t.Fatalf("the replica has entries %+v", e)
	}
	last := mutex("n")
	mustAsk(t, other, last)
	lost := false
	// asked records an answer to the waiter, and reports whether there is one.
	asked := func(a store.Answer, err error) bool {
		t.Helper()
		switch {
		case err == nil && a.Granted:
			t.Fatalf("got %+v while another claim holds the lock", a)
		case err == nil:
			lasts = a.From.Add(ttl)
		case store.Definite(err) && store.Now() > lasts:
			lost = true
		case store.Definite(err):
			t.Fatalf("the queue position: %v", err)
		}
		return err == nil
	}
	until(t, "the server answers", func() bool { return asked(s.Ask(t.Context(), waits)) || lost })
	testwait.UntilPast(t, 2*ttl, "the released position is removed", func() bool { // its session keeps nothing else, and ends then
		if a, err := s.Poll(t.Context(), waits); err == nil && a.From == 0 {
			asked(s.Ask(t.Context(), waits))
		} else {
			asked(a, err)
		}
		if lost {
			return true
		}
		mustAsk(t, other, last)
		mustRenew(t, holder, h)
		mustAsk(t, other, try("n")) // a newcomer finds the dead entry
		return len(state(t, other, "n").Entries) == 3 && state(t, other, "n").Entries[1].ID != gone.ID
	})
	if lost {
		return false
	}
	if now := sessionOf(t, other, "n", waits.ID); now == in {
		t.Error("the position is still in the session of the former server")
	}
	if err := holder.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a := mustAsk(t, other, last); a.Granted {
		if store.Now() > lasts {
			return false
		}
		t.Errorf("got %+v: the waiter was overtaken", a)
	}
	if a, err := s.Ask(t.Context(), waits); err != nil || !a.Granted {
		if store.Now() > lasts {
			return false
		}
		t.Errorf("got %+v, %v, want the next grant", a, err)
	}
	return true
}

// This is what Describe says of a promoted replica: it may grant a lock that is held, and with a clock that is behind it draws tokens that are
// not larger.
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
		t.Errorf("a claim on a standby: %v, want ErrUnavailable for read-only", err)
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
		t.Errorf("the hold that the replica had: %v", err)
	}
	if err := after.Renew(t.Context(), []store.Hold{news})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("the hold that the replica lacked: %v, want ErrLost", err)
	}
	a := mustAsk(t, after, mutex("news"))
	if !a.Granted || a.Token >= news.Token {
		t.Errorf("a name that the replica lacked: got %+v, want a second grant with a token smaller than %d", a, news.Token)
	}
	d := after.Describe()
	if !slices.Contains(d.Forgets, store.AccidentFailOver) || !strings.Contains(d.Loses, "replica") || !strings.Contains(d.Tokens, "replica") {
		t.Errorf("Describe does not mention it: got %+v", d)
	}
}

// Not only the begin of a session reports the server: the server can be replaced when no session begins on the next one.
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
		t.Errorf("got server %d, want %d as at the start of the session", now, of)
	}
}
