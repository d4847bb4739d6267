package holdfasttusd_test

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
		{"the lock is not released", "TestALockIsHeldUntilItsUnlock", "tusd-release", mutant.Return("nil")},
		{"the holder is not asked", "TestTheHolderIsAskedToUnlock", "tusd-asked", mutant.First("return")},
		{"a loss is not reported", "TestALossEndsTheRequest", "tusd-lost", mutant.First("return")},
		{"all uploads have one lock", "TestTwoUploadsAreLockedAtOnce", "tusd-name", mutant.Value("l.prefix")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfasttusd", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
