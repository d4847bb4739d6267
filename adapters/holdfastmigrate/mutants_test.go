package holdfastmigrate_test

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
		{"a migration begins after a loss", "TestNoMigrationBeginsOnceTheLeaseIsLost", "migrate-lost", mutant.Cond("false && (WAS)")},
		{"the lock is not released", "TestMigrationsRunInOneOfManyReplicas", "migrate-release", mutant.Return("nil")},
		{"Close keeps the lock", "TestCloseReleasesTheLock", "migrate-close", mutant.Value("error(nil)")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastmigrate", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
