package mysqlstore

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(workerEnv); at != "" {
		if err := worker(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		os.Setenv("HOLDFAST_TEST_STEPS", "5000")
	}
	flag.Set("test.parallel", "4") // they mostly wait; the command line comes before
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// sharedDSN is how to come to the server that the tests of this package share:
// MariaDB, or what HOLDFAST_TEST_MYSQL says, a DSN of the driver of a user who
// may do everything in its database.
func sharedDSN(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv("HOLDFAST_TEST_MYSQL"); dsn != "" {
		return dsn
	}
	return testserver.MariaDBDSN(testserver.SharedMariaDB(t))
}

// dbOn returns a pool of connections, closed when the test ends.
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

// apart is a table that nobody else uses.
func apart() *Options { return &Options{Table: "test_" + store.NewProcess().String()} }

// newShared returns a Store on the shared server, closed when the test ends.
func newShared(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, dbOn(t, sharedDSN(t)), apart())
	t.Cleanup(func() { s.Close() })
	return s
}

// patience bounds every waiting here. It is long because a loaded machine is no
// failure; a search for mutants cannot wait that long for each of them.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()

// until polls for something that must happen.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

var me = store.NewProcess()

// mutex is a claim of all of a name, to be waited for.
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

// storeAt has another clock than the server's, and sweeps nothing by itself: that
// would read the clock beside the test.
func storeAt(t testing.TB, db *sql.DB, o *Options, clock func() int64) *Store {
	t.Helper()
	s, err := newStore(db, o, clock)
	if err != nil {
		t.Fatal(err)
	}
	s.swept.next = time.Now().Add(time.Hour)
	return s
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.Differential(t, storetest.Clocked{
		Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			db, o := dbOn(t, sharedDSN(t)), apart()
			return func() store.Store {
				s := storeAt(t, db, o, func() int64 { return clock().Clock })
				return s
			}
		},
		Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
			r, err := s.(*Store).read(t.Context(), s.(*Store).db, name)
			if err != nil {
				t.Fatal(err)
			}
			return r.q
		},
	})
}
