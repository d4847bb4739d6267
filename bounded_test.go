package holdfast

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// bound has how long a test in a bubble may take.
const bound = "HOLDFAST_TEST_PATIENCE"

// bounded is synctest.Test for tests that some mutant keeps busy for ever: it asks without
// end at one instant, or waits for a mutex. Then the clock of the bubble stands still, so
// only a clock outside of it can end the test, and only by a panic.
func bounded(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	limit := time.Minute
	if d, err := time.ParseDuration(os.Getenv(bound)); err == nil {
		limit = d
	}
	hangs := time.AfterFunc(limit, func() { panic(fmt.Sprintf("%s hangs: still running after %v", t.Name(), limit)) })
	defer hangs.Stop()
	synctest.Test(t, test)
}
