package pgadvisory

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "4") // the tests mostly wait; a flag on the command line overrides this
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// These helpers are shared with the tests of package pgstore.
var (
	until, quiet  = testwait.Until, pgtest.Quiet
	patience      = testwait.Patience
	sharedAddr    = pgtest.Addr
	poolOn, apart = pgtest.Pool, pgtest.Schema
	eachTx        = pgtest.EachTx
)

type someTx = pgtest.Tx
