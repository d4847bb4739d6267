// Package testwait is how tests wait: for a condition, and for long, as a machine that is busy or stands still is no
// failure.
package testwait

import (
	"os"
	"testing"
	"time"
)

// PatienceEnv is the environment variable with another Patience: a test that looks for mutants cannot wait that long for
// each of them.
const PatienceEnv = "HOLDFAST_TEST_PATIENCE"

// Patience is how long a test waits for what must happen.
var Patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceEnv)); err == nil {
		return d
	}
	return 3 * time.Minute
}()

// Until waits until f is true. After Patience it ends the test, and says what did not happen.
func Until(t testing.TB, what string, f func() bool) {
	t.Helper()
	UntilPast(t, 0, what, f)
}

// UntilPast is Until for what cannot happen before a time has passed.
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
