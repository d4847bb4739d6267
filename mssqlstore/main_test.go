package mssqlstore

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
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

// patience is how long a test waits for a condition that must come true.
var patience = testwait.Patience

// until waits for a condition that must come true.
var until = testwait.Until
