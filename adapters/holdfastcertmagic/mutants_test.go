package holdfastcertmagic_test

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
		{"the lock is not taken", "TestOneOfManyObtainsACertificate", "certmagic-lock", mutant.Return("nil")},
		{"the lock is not released", "TestALockIsHeldUntilItsUnlock", "certmagic-unlock", mutant.Return("nil")},
		{"a lost lease is taken for held", "TestALostLockIsTakenAgainBeforeTheNextAttempt", "certmagic-lost-is-locked-again", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastcertmagic", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
