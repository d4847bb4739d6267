package testserver

import (
	"os"
	"testing"
)

// NightlyEnv is the variable that is set where tests may take long, as make nightly does.
const NightlyEnv = "HOLDFAST_NIGHTLY"

// Nightly reports whether tests may take long.
func Nightly() bool { return os.Getenv(NightlyEnv) != "" }

// AtNight skips the test by day. It is for what takes long and says little of a change
// that the tests of the day do not say: another way to the same store, another server.
func AtNight(t testing.TB) {
	t.Helper()
	if !Nightly() {
		t.Skip("it takes long: make nightly runs it")
	}
}
