package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// Where the server closes idle connections, all connections of the pool may be closed. The store finds that and replaces each.
func TestAPoolOfClosedConnectionsFailsNoStatement(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	const app = "closed for being idle"
	pool := poolOn(t, addr, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = app
		c.ConnConfig.RuntimeParams["idle_session_timeout"] = "100ms"
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	s := tableOn(t, pool, &Options{Schema: apart(t, addr)})
	defer s.Close()
	var all []*pgxpool.Conn
	for range 2 * repeats {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	direct := poolOn(t, addr)
	until(t, "the server has closed the connections", func() bool {
		return pgtest.One[int](t, direct, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1", app) == 0
	})
	if n := pool.Stat().IdleConns(); n != 2*repeats {
		t.Fatalf("got %d idle connections in the pool, want %d", n, 2*repeats)
	}
	if _, err := s.Poll(t.Context(), mutex("n")); err != nil {
		t.Error(err)
	}
}

// Request handlers that each keep a connection while they wait for a lock must not stop its holder from renewing and releasing.
func TestAnExhaustedPoolDoesNotStopRenewals(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	pool := poolOn(t, addr, func(c *pgxpool.Config) { c.MaxConns = 3 })
	db := stdlib.OpenDB(*poolOn(t, addr).Config().ConnConfig)
	defer db.Close()
	db.SetMaxOpenConns(3)
	for what, c := range map[string]struct {
		open  func(o *Options) (*Store, error)
		empty func(t *testing.T)
	}{
		"pgx": {func(o *Options) (*Store, error) { return New(pool, o) }, func(t *testing.T) {
			for range 3 {
				conn, err := pool.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(conn.Release)
			}
		}},
		"database/sql": {func(o *Options) (*Store, error) { return NewDB(db, o) }, func(t *testing.T) {
			for range 3 {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := c.open(&Options{Schema: apart(t, addr)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			h := mustHold(t, s, mutex("n"))
			var several []store.Hold
			for _, name := range []string{"a", "b", "c"} {
				several = append(several, mustHold(t, s, mutex(name)))
			}
			s.tasks.Wait() // the initial sweep
			c.empty(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if r := s.Renew(ctx, []store.Hold{h})[0]; r.Err != nil {
				t.Fatal("renewal:", r.Err)
			}
			if err := s.Release(ctx, h); err != nil {
				t.Fatal("release:", err)
			}
			if err := errors.Join(s.ReleaseAll(ctx, several)...); err != nil {
				t.Fatal("release of several holds, as by Close:", err)
			}
		})
	}
}

// A pool can seem to have a free connection and yet give none: somebody else was faster, or it opens a new one and that takes long.
func TestAMissingConnectionDoesNotStopRenewals(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	for what, open := range map[string]func(pool *pgxpool.Pool, o *Options) (s *Store, drop func(), err error){
		"pgx": func(pool *pgxpool.Pool, o *Options) (*Store, func(), error) {
			s, err := New(pool, o)
			return s, pool.Reset, err
		},
		"database/sql": func(pool *pgxpool.Pool, o *Options) (*Store, func(), error) {
			db := stdlib.OpenDB(*pool.Config().ConnConfig)
			t.Cleanup(func() { db.Close() })
			db.SetMaxOpenConns(3)
			s, err := NewDB(db, o)
			return s, func() { db.SetMaxIdleConns(-1) }, err
		},
	} {
		renewed := func(t *testing.T) error {
			var stalls atomic.Bool // the next dial stalls
			pool := poolOn(t, addr, func(c *pgxpool.Config) {
				dial := c.ConnConfig.DialFunc
				c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					if stalls.CompareAndSwap(true, false) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return dial(ctx, network, address)
				}
			})
			s, drop, err := open(pool, &Options{Schema: apart(t, addr)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			h := mustHold(t, s, mutex("n"))
			s.tasks.Wait() // the initial sweep
			drop()
			stalls.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = s.Renew(ctx, []store.Hold{h})[0].Err
			if err == nil && stalls.Load() {
				t.Fatal("the pool did not dial")
			}
			return err
		}
		t.Run(what, func(t *testing.T) {
			for range 3 { // the machine may have stood still. A store that waits for that connection does so each time
				err := renewed(t)
				if err == nil {
					return
				}
				if t.Logf("renewal: %v", err); !errors.Is(err, store.ErrUnavailable) {
					t.FailNow()
				}
			}
			t.Fatal("no renewal got an answer")
		})
	}
}

func TestTheCheckWarnsOfAPoolThatOthersCanEmpty(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	db := sql.OpenDB(pgtest.OlderDriver(t, addr))
	defer db.Close()
	s, err := NewDB(db, &Options{Schema: apart(t, addr)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	warned := func() bool {
		for _, f := range s.Check(t.Context()) {
			if f.Err != nil {
				t.Errorf("%+v", f)
			}
			if f.About == "pool" && f.Warning {
				return true
			}
		}
		return false
	}
	if warned() {
		t.Error("got a warning of a pool without a bound")
	}
	db.SetMaxOpenConns(5)
	if !warned() {
		t.Error("got no warning of a pool with a bound")
	}
}

// The store understands a driver whose errors have a field Code and no method: it creates the table at the first use, and a refusal is
// store.ErrDenied.
func TestErrorsOfDriversWithoutSQLState(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	schema := apart(t, addr)
	db := sql.OpenDB(pgtest.OlderDriver(t, addr))
	defer db.Close()
	s, err := NewDB(db, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Release(t.Context(), mustHold(t, s, mutex("n"))); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]error{"42501": store.ErrDenied, "42P01": nil, "55P03": nil} {
		err := fmt.Errorf("wrapped: %w", &pgtest.PlainError{Code: pgtest.PlainCode(state)})
		if got := code(err); got != state {
			t.Errorf("got code %q of %s", got, state)
		}
		if want != nil && !errors.Is(s.failed("x", err), want) {
			t.Errorf("%s: %v", state, s.failed("x", err))
		}
	}
	for _, err := range []error{nil, errors.New("x"), &pgtest.PlainError{Code: "no"}, (*pgtest.PlainError)(nil)} {
		if got := code(err); got != "" {
			t.Errorf("%v: got code %q, want none", err, got)
		}
	}
}

// Behind a pooler that shares connections, waiters are woken over an address that leads to the server itself.
func TestListenConnectsToTheServerPastAPooler(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	bouncer := testserver.PgBouncer(t, addr, 4)
	o := &Options{Schema: apart(t, addr), Listen: addr}
	s := tableOn(t, poolOn(t, bouncer.Addr), o)
	defer s.Close()
	notifications := make(chan store.Notification, 10)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, s, mutex("n"))
	next := mutex("n")
	next.ID = me.NewID()
	mustAsk(t, s, next)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	select {
	case notification := <-notifications:
		if notification.ID != next.ID || notification.Token == 0 {
			t.Errorf("%+v", notification)
		}
	case <-time.After(patience):
		t.Error("got no notification")
	}
	for _, bad := range []string{"host", "host:", ":1", "host:x", "host:0", "host:70000"} {
		if _, err := New(poolOf(s), &Options{Listen: bad}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The driver gets the settings that the URL has.
func TestSettingsOfAURLReachTheServerAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	c, o, err := ParseURL(testserver.PostgresURL(sharedAddr(t)) + pgtest.Settings + "&sch%65ma=s%20t&table=t+u&listen=h:1")
	if err != nil || o.Schema != "s t" || o.Table != "t+u" || o.Listen != "h:1" {
		t.Fatalf("got %+v, %v", o, err)
	}
	pgtest.HasSettings(t, c.ConnConfig)
}
