package mssqlstore

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// The tests here and in the files whose names begin with server_ run on the server that HOLDFAST_TEST_SQLSERVER names.

// openOn returns a backend on connections of its own, with existing tables.
func openOn(t testing.TB, url string, o *Options) *backend {
	t.Helper()
	b, err := open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// plainOn returns a pool as a program has it. The test closes it at its end.
func plainOn(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// initialized returns a pool that runs a statement on a connection each time before it is used.
func initialized(t testing.TB, url, statement string) *sql.DB {
	t.Helper()
	c, err := mssql.NewConnector(url)
	if err != nil {
		t.Fatal(err)
	}
	c.SessionInitSQL = statement
	db := sql.OpenDB(c)
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// apart names tables that nobody else uses. The test drops them at its end.
func apart(t testing.TB) *Options {
	t.Helper()
	return apartOn(t, testserver.SQLServer(t))
}

func apartOn(t testing.TB, url string) *Options {
	t.Helper()
	o := &Options{Table: "test_" + store.NewProcess().String()}
	t.Cleanup(func() {
		db, err := sql.Open("sqlserver", url)
		if err != nil {
			return
		}
		defer db.Close()
		all, _ := o.filled()
		for _, table := range []string{all.locks(), all.sessions()} {
			db.Exec("IF OBJECT_ID(N'" + table + "',N'U') IS NOT NULL DROP TABLE " + table)
		}
	})
	return o
}

// newStore returns a Store on the server. The test closes it at its end.
func newStore(t testing.TB) *Store {
	t.Helper()
	o := apart(t)
	s, err := Open(testserver.SQLServer(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var me = store.NewProcess()

// mutex is a claim of a whole name that may wait.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, state = storetest.MustAsk, storetest.MustHold, storetest.MustList

// linkTo returns the URL of the server by way of a link of its own.
func linkTo(t testing.TB, at string) (linked string, link *testserver.Link) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if u.Port() == "" {
		u.Host += ":1433"
	}
	link = testserver.NewLink(t, u.Host)
	u.Host = link.Addr()
	return u.String(), link
}

func TestStore(t *testing.T) {
	t.Parallel()
	at, o := testserver.SQLServer(t), apart(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := Open(at, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// The store runs on a pool that a program has anyway.
func TestStoreOnAPoolOfTheCallers(t *testing.T) {
	t.Parallel()
	o := apart(t)
	db := plainOn(t, testserver.SQLServer(t))
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := New(db, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestBackend(t *testing.T) {
	t.Parallel()
	at, o, brief := testserver.SQLServer(t), apart(t), apart(t)
	linked := func(t *testing.T) (*backend, *testserver.Link) {
		url, link := linkTo(t, at)
		return openOn(t, url, o), link
	}
	recordtest.Run(t, recordtest.Subject{
		Open:   func(t *testing.T) record.Backend { return openOn(t, at, o) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) { b, link := linked(t); return b, link },
		Freeze: func(t *testing.T) (record.Backend, func()) {
			b, link := linked(t)
			return b, func() { link.HoldAfter(0) }
		},
		Brief: func(t *testing.T) record.Backend {
			b := openOn(t, at, brief) // it sweeps all that is in the table
			b.Retention = time.Second
			ctx, cancel := context.WithCancel(t.Context())
			var sweeping sync.WaitGroup
			sweeping.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
					if err := b.sweep(ctx); err != nil && ctx.Err() == nil && !is(err, deadlock) {
						t.Error(err)
					}
				}
			})
			t.Cleanup(func() { cancel(); sweeping.Wait() })
			return b
		},
	})
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	at := testserver.SQLServer(t)
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			o := apart(t)
			return func() store.Store {
				s, err := Open(at, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
		},
		End: func(t *testing.T, s store.Store) error {
			ours := s.(*Store)
			for _, id := range ours.Sessions() {
				if err := ours.b.End(t.Context(), id); err != nil {
					return err
				}
			}
			return ours.Settle(t.Context())
		},
	})
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	at, o := testserver.SQLServer(t), apart(t)
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		url, link := linkTo(t, at)
		s, err := Open(url, o)
		if err != nil {
			t.Fatal(err)
		}
		return s, link
	}})
}
