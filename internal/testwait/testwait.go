// Package testwait is how tests wait for a condition. They wait for long, because a machine that is busy or stalls is
// not a failure.
package testwait

import (
	"os"
	"testing"
	"time"
)

// PatienceEnv is the environment variable that sets Patience: a test that looks for mutants cannot wait that long for
// each of them.
const PatienceEnv = "HOLDFAST_TEST_PATIENCE"

// Patience is how long a test waits for a condition that must become true.
var Patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceEnv)); err == nil {
		return d
	}
	return 3 * time.Minute
}()

// Until waits until f returns true. After Patience it ends the test, and reports what did not
// happen.
func Until(t testing.TB, what string, f func() bool) {
	t.Helper()
	UntilPast(t, 0, what, f)
}

// UntilPast is Until for something that cannot happen before the time d has passed.
func UntilPast(t testing.TB, d time.Duration, what string, f func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(d + Patience); !f(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", d+Patience, what)
		}
		pause = min(pause*5/4, 30*time.Millisecond)
	}
}
