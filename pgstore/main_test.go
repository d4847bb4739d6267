package pgstore

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if url := crowdtest.At(); url != "" {
		if err := worker(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		// A step of the comparison takes some ten statements. The rare cases have a test of their own: TestTheShortestStatementsKeepToTheRule.
		os.Setenv("HOLDFAST_TEST_STEPS", "5000")
	}
	flag.Set("test.parallel", "4") // the tests mostly wait; a flag on the command line overrides this
	goleak.VerifyTestMain(testserver.Main{M: m})
}

var me = store.NewProcess()

// These helpers are shared with the tests of package pgadvisory.
var (
	until, quiet  = testwait.Until, pgtest.Quiet
	patience      = testwait.Patience
	sharedAddr    = pgtest.Addr
	poolOn, apart = pgtest.Pool, pgtest.Schema
	eachTx        = pgtest.EachTx
)

type someTx = pgtest.Tx

func TestTheServerIsThere(t *testing.T) {
	addr := sharedAddr(t)
	schema := apart(t, addr)
	var n int
	err := poolOn(t, addr).QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, schema).Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("got %d schemas %s, %v, want one", n, schema, err)
	}
}
