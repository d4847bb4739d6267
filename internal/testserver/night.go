package testserver

import (
	"os"
	"testing"
)

// NightlyEnv is the variable that make nightly sets: tests may take long.
const NightlyEnv = "HOLDFAST_NIGHTLY"

// Nightly reports whether tests may take long.
func Nightly() bool { return os.Getenv(NightlyEnv) != "" }

// AtNight skips the test unless this is a nightly run. It is for tests that take long and show
// little about a change that the daily tests do not show: another way to the same store,
// another server.
func AtNight(t testing.TB) {
	t.Helper()
	if !Nightly() {
		t.Skip("it takes long: make nightly runs it")
	}
}
