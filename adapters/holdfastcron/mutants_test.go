package holdfastcron_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The adapter with one thing wrong fails a test.
func TestEachMutantIsCaught(t *testing.T) {
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"the job runs without its lock", "TestATickRunsInOneOfManyProcesses", "cron-try", mutant.Value("true, func() error { j.Run(); return nil }()")},
		{"a loss ends no context", "TestALossEndsTheContextAndIsLogged", "cron-context", mutant.Return("f(w.ctx)")},
		{"a loss is not reported", "TestALossEndsTheContextAndIsLogged", "cron-loss", mutant.Cond("false && (WAS)")},
		{"a tick that has ended can run again", "TestALateClockDoesNotRunTheTickAgain", "cron-times", mutant.Value("locks.With(&holdfast.Options{MaxHold: o.AtMost}).Mutex(name)")},
		{"a run that hangs keeps the lock", "TestAtMostEndsARunThatHangs", "cron-times", mutant.Value("locks.With(&holdfast.Options{MinHold: o.AtLeast}).Mutex(name)")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastcron", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
