package objecttest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The code that stores share fails a test of the kit if one thing in it is wrong, as a store with that defect would.
func TestTheKitCatchesEachMutantOfObjects(t *testing.T) {
	t.Parallel()
	const (
		unfit   = "TestAServerThatIsUnfitIsRefused"
		backend = "TestMemory/backend/promise/"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a server that lets several writes win is used", unfit, "object-trial-of-writers", mutant.Cond("WAS && false")},
		{"a server that does a late write is used", unfit, "object-trial-of-late", mutant.Cond("WAS && false")},
		{"a server that creates a missing object is used", unfit, "object-trial-of-none", mutant.Cond("WAS && false")},
		{"a server that does a late delete is used", unfit, "object-trial-of-deletes", mutant.Line("case o.Version == \"\":\nreturn nil")},
		{"a server that keeps or deletes objects is used", unfit, "object-trial-of-rules", mutant.Cond("WAS && false")},
		{"a server behind a cache is used", "TestAServerBehindACacheIsRefused", "object-trial-of-caches", mutant.Line("case false:")},
		{"a server that has two clocks is used", unfit, "object-trial-of-clocks", mutant.Line("case before >= written || age < 1<<62:")},
		{"a swap takes in notes twice", backend + "a_swap_whose_notes_were_taken_in_is_refused", "object-note-taken-in-twice", mutant.Stmt("_ = n")},
		{"a session without a clock ends at once", "TestMemory/cron", "object-watched-for-its-ttl", mutant.Cond("WAS && false")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "internal/objecttest", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
