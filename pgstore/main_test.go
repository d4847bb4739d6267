package pgstore

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerEnv); url != "" {
		if err := worker(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		// A step of the comparison is some ten statements. What chance brings about
		// seldom is tested by itself: TestTheShortestStatementsKeepToTheRule.
		os.Setenv("HOLDFAST_TEST_STEPS", "5000")
	}
	flag.Set("test.parallel", "4") // they mostly wait; the command line comes before
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// patience is how long something that must happen is waited for; mutants, of
// which it does not, have less.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(patienceEnv)); err == nil {
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

// quiet is a log that is shown if the test fails: servers of tests do not wait
// for the disk, which each Locker would warn of.
func quiet(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// poolOn returns a pool of the superuser's connections to the server at addr,
// closed when the test ends.
func poolOn(t testing.TB, addr string, edit ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(testserver.PostgresURL(addr, "pool_max_conns=12"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range edit {
		f(c)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// apart makes a schema that nobody else uses, on the server at addr.
func apart(t testing.TB, addr string) (schema string) {
	t.Helper()
	schema = "test_" + store.NewProcess().String()
	if _, err := poolOn(t, addr).Exec(t.Context(), `CREATE SCHEMA "`+schema+`"`); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestTheServerIsThere(t *testing.T) {
	addr := sharedAddr(t)
	schema := apart(t, addr)
	var n int
	err := poolOn(t, addr).QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, schema).Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d schemas %s, %v", n, schema, err)
	}
}
