package holdfast

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// bound has what is for how long a test in a bubble may take.
const bound = "HOLDFAST_TEST_PATIENCE"

// bounded is synctest.Test of what some mutant never lets come to rest: it asks without
// end at one instant, or waits for a mutex. The clock of the bubble stands still then, so
// only one outside of it can end the test, and only by a panic.
func bounded(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	limit := time.Minute
	if d, err := time.ParseDuration(os.Getenv(bound)); err == nil {
		limit = d
	}
	hangs := time.AfterFunc(limit, func() { panic(fmt.Sprintf("%s hangs: it has not come to rest in %v", t.Name(), limit)) })
	defer hangs.Stop()
	synctest.Test(t, test)
}
