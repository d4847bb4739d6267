package holdfasthttp_test

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
		{"a refused request is served", "TestARequestWaitsNoLongerThanItsOption", "http-refused", mutant.First("next.ServeHTTP(w, r)")},
		{"a loss ends no context", "TestALossEndsTheContextOfTheRequest", "http-context", mutant.Stmt("next.ServeHTTP(w, r)")},
		{"the lock is not released", "TestAHandlerRunsWhileTheLockIsHeld", "http-release", mutant.Delete()},
		{"a panic keeps the lock", "TestAPanicReleasesTheLock", "http-release", mutant.Delete()},
		{"all requests have one lock", "TestAHandlerRunsWhileTheLockIsHeld", "http-name", mutant.Value(`l.locks.Mutex("all"), (*holdfast.Lock).Lock`)},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfasthttp", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
