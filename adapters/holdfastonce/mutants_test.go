package holdfastonce_test

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
		{"each that waited computes", "TestAValueIsComputedOnceForAllProcesses", "once-looks-again", mutant.Cond("(WAS) && err != nil")},
		{"a value is cached after a loss", "TestAfterALossNothingIsCached", "once-lost", mutant.Cond("false && (WAS)")},
		{"an error is cached", "TestAnErrorIsNotCachedAndTheNextComputes", "once-error", mutant.Cond("false && (WAS)")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastonce", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
