package pgstore

import (
	"context"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func tableOn(t testing.TB, pool *pgxpool.Pool, o *Options) *Store {
	t.Helper()
	s, err := New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newShared returns a Store on the shared server. The test closes it at its end. The store never sweeps old rows by itself: otherwise one
// process in eight would, besides its first ask.
func newShared(t testing.TB) *Store {
	t.Helper()
	addr := sharedAddr(t)
	s := tableOn(t, poolOn(t, addr), &Options{Schema: apart(t, addr)})
	s.db = &meddled{db: s.db}
	s.next.Store(math.MaxInt64)
	t.Cleanup(func() { s.Close() })
	return s
}

// tableAt returns a store on a table of its own, on the pool or, if that is nil, on the server that tests share. Its server clock shows *now.
func tableAt(t *testing.T, pool *pgxpool.Pool, now *int64) *Store {
	t.Helper()
	addr := sharedAddr(t)
	if pool == nil {
		pool = poolOn(t, addr)
	}
	s, err := newStore(onPgx(pool), &Options{Schema: apart(t, addr)}, func() int64 { return *now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// mutex is a claim of a whole name that may wait.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, state = storetest.MustAsk, storetest.MustHold, storetest.MustList

func TestTable(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr, func(c *pgxpool.Config) { c.MaxConns = 8 }), apart(t, addr)
	storetest.Run(t, func(t *testing.T) store.Store { return tableOn(t, pool, &Options{Schema: schema}) })
}

func TestTableDifferential(t *testing.T) {
	t.Parallel()
	storetest.Differential(t, storetest.Clocked{
		Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			addr := sharedAddr(t)
			pool, schema := poolOn(t, addr), apart(t, addr)
			opened := 0
			return func() store.Store {
				s, err := newStore(onPgx(pool), &Options{Schema: schema}, func() int64 { return clock().Clock })
				if err != nil {
					t.Fatal(err)
				}
				if opened++; opened > 1 {
					// releaseNext does all that releaseFast does, and more that can be compared.
					s.do.releaseFast = s.do.releaseNext
				}
				return s
			}
		},
		Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
			f, err := s.(*Store).look(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return f.q
		},
	})
}

// This runs in a database of its own: with HOLDFAST_TEST_SEED both comparisons have the same processes, and notifications reach a whole
// database.
func TestTableSessionsDifferential(t *testing.T) {
	t.Parallel()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			addr := sharedAddr(t)
			database := "test_" + store.NewProcess().String()
			run(t, poolOn(t, addr), "CREATE DATABASE "+database)
			in := func(c *pgxpool.Config) { c.ConnConfig.Database = database }
			return func() store.Store { return tableOn(t, poolOn(t, addr, in), nil) }
		},
		End: func(t *testing.T, s store.Store) error { return endAll(t.Context(), s.(*Store)) },
	})
}

// endAll ends the sessions of a store on the server, and all holds with an expiry of their own. Then it has the store learn of it.
func endAll(ctx context.Context, s *Store) error {
	for _, id := range s.sessions.IDs() {
		if err := (sessionTable{s}).End(ctx, id); err != nil {
			return err
		}
		if sess := s.sessions.Own(id); sess != nil {
			sess.Wait(ctx, sess.Renew())
		}
	}
	of := map[string][]store.ID{}
	s.claims.mu.Lock()
	for id, m := range s.claims.of {
		of[m.name] = append(of[m.name], id)
	}
	s.claims.mu.Unlock()
	for name, ids := range of {
		f, err := s.lookJudged(ctx, name, everybodys)
		if err == nil {
			for _, id := range ids {
				f.ended.add(id[:], 0)
			}
			err = s.drop(ctx, name, f.ended, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
