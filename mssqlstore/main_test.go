package mssqlstore

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
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
	flag.Set("test.parallel", "4") // they mostly wait; the command line comes before
	goleak.VerifyTestMain(testserver.Main{M: m})
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
