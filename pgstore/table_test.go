package pgstore

import (
	"testing"
	"time"

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
	return edited(t, s)
}

// newShared returns a Store on the shared server, closed when the test ends.
func newShared(t testing.TB) *Store {
	t.Helper()
	addr := sharedAddr(t)
	s := tableOn(t, poolOn(t, addr), &Options{Schema: apart(t, addr)})
	t.Cleanup(func() { s.Close() })
	return s
}

// mutex is a claim of all of a name, to be waited for.
func mutex(name string) store.Claim {
	return store.Claim{
		Name: name, ID: me.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Minute, Place: 10 * time.Second, Owner: store.Owner{Host: "h", PID: 1, Program: "p"}.String(),
	}
}

func mustAsk(t testing.TB, s *Store, c store.Claim) store.Answer {
	t.Helper()
	a, err := s.Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustHold(t testing.TB, s *Store, c store.Claim) store.Hold {
	t.Helper()
	a := mustAsk(t, s, c)
	if !a.Granted {
		t.Fatalf("%q is not granted: %+v", c.Name, a)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
}

func state(t testing.TB, s *Store, name string) store.State {
	t.Helper()
	for st, err := range s.List(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	return store.State{Name: name}
}

func TestTable(t *testing.T) {
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr, func(c *pgxpool.Config) { c.MaxConns = 20 }), apart(t, addr)
	storetest.Run(t, func(t *testing.T) store.Store { return tableOn(t, pool, &Options{Schema: schema}) })
}

func TestTableDifferential(t *testing.T) {
	storetest.Differential(t, storetest.Clocked{
		Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			addr := sharedAddr(t)
			pool, schema := poolOn(t, addr), apart(t, addr)
			return func() store.Store {
				s, err := newStore(onPgx(pool), &Options{Schema: schema}, func() int64 { return clock().Clock })
				if err != nil {
					t.Fatal(err)
				}
				return edited(t, s)
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
