package holdfastgoose_test

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
		{"the lock is not taken", "TestMigrationsRunInOneOfManyReplicas", "goose-lock", mutant.Return("nil")},
		{"a loss is not reported", "TestALossIsInTheErrorOfUp", "goose-unlock", mutant.Return("nil")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastgoose", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
