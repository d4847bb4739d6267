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
	flag.Set("test.parallel", "4") // they mostly wait; the command line comes before
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// What the tests share with those of package pgstore.
var (
	until, quiet  = testwait.Until, pgtest.Quiet
	patience      = testwait.Patience
	sharedAddr    = pgtest.Addr
	poolOn, apart = pgtest.Pool, pgtest.Schema
	eachTx        = pgtest.EachTx
)

type someTx = pgtest.Tx
