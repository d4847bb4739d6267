package mysqlstore

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	if at := crowdtest.At(); at != "" {
		if err := worker(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		os.Setenv("HOLDFAST_TEST_STEPS", "2000")
	}
	flag.Set("test.parallel", "4") // the tests mostly wait; a flag on the command line overrides this
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// sharedDSN returns the DSN of the server that the tests of this package share: MariaDB, or the server that HOLDFAST_TEST_MYSQL names by a DSN
// of the driver. Its user must have all rights in the database.
func sharedDSN(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv("HOLDFAST_TEST_MYSQL"); dsn != "" {
		return dsn
	}
	return testserver.MariaDBDSN(testserver.SharedMariaDB(t))
}

// dbOn returns a pool of connections. The test closes it at its end.
func dbOn(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{} // tests break connections
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(64)
	t.Cleanup(func() { db.Close() })
	return db
}

func storeOn(t testing.TB, db *sql.DB, o *Options) *Store {
	t.Helper()
	s, err := New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart names a table that nobody else uses.
func apart() *Options { return &Options{Table: "test_" + store.NewProcess().String()} }

// newShared returns a Store on the shared server. The test closes it at its end.
func newShared(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, dbOn(t, sharedDSN(t)), apart())
	t.Cleanup(func() { s.Close() })
	return s
}

// patience is how long a test waits for a condition that must come true.
var patience = testwait.Patience

// until waits for a condition that must come true, and untilPast for one that cannot come true before a time has passed.
var until, untilPast = testwait.Until, testwait.UntilPast

var me = store.NewProcess()

// mutex is a claim of a whole name that may wait.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, state = storetest.MustAsk, storetest.MustHold, storetest.MustList

func mustExec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	db := dbOn(t, sharedDSN(t))
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, db, nil) })
}

func TestTheSuitePassesOnMySQL(t *testing.T) {
	t.Parallel()
	db := dbOn(t, testserver.MariaDBDSN(testserver.SharedMySQL9(t)))
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, db, nil) })
}

// backendOn returns a backend with existing tables.
func backendOn(t testing.TB, dsn string, o *Options) *backend {
	t.Helper()
	b, err := newBackend(dbOn(t, dsn), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	dsn, o, brief := sharedDSN(t), apart(), apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return backendOn(t, dsn, o) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			linked, link := linkTo(t, dsn)
			return backendOn(t, linked, o), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			server := testserver.MariaDB(t)
			t.Cleanup(server.Thaw)
			return backendOn(t, testserver.MariaDBDSN(server.Addr), nil), server.Freeze
		},
		Brief: func(t *testing.T) record.Backend {
			b := backendOn(t, dsn, brief) // it sweeps all that is in the table
			b.Retention = time.Second
			ctx, cancel := context.WithCancel(t.Context())
			var sweeping sync.WaitGroup
			sweeping.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
					if err := b.sweep(ctx); err != nil && ctx.Err() == nil {
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
	dsn := sharedDSN(t)
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			o := apart()
			return func() store.Store { return storeOn(t, dbOn(t, dsn), o) }
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
