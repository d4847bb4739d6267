package holdfastgocron_test

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
		{"a job runs though it is held", "TestAJobRunsInOneOfManySchedulers", "gocron-refused", mutant.Cond("false && (WAS)")},
		{"a job runs again within the splay", "TestAJobIsNotRunAgainWithinTheSplay", "gocron-splay", mutant.Return("&Locker{locks.ByName()}")},
		{"the lock is not released", "TestAJobRunsInOneOfManySchedulers", "gocron-unlock", mutant.Return("nil")},
		{"two lead at once", "TestJobsRunInTheProcessThatLeads", "gocron-leads", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastgocron", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
