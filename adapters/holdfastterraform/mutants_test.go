package holdfastterraform_test

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
		{"another client writes the state", "TestAClientWithoutTheLockWritesNothing", "terraform-id", mutant.Cond("false && (WAS)")},
		{"the lock is free while the state is written", "TestTheLockIsNotGrantedWhileAStateIsWritten", "terraform-unlock-waits", mutant.Stmt("go func() { <-h.turn }()")},
		{"any ID unlocks", "TestForceUnlockGivesTheLockBack", "terraform-unlock-id", mutant.Cond("false && (WAS)")},
		{"all states have one lock", "TestARefusedLockIsAnsweredWithTheHoldersInfo", "terraform-name", mutant.Value("b.locks.With(&holdfast.Options{Note: note(i)}).Mutex(LockPrefix).TryLock(r.Context())")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastterraform", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, mutant.Broken{ // it removes two guards
		Name: "a lost lock is held", Pkg: "adapters/holdfastterraform", Test: "TestAfterALossNothingIsWritten",
		Edits: []mutant.Edit{mutant.At("terraform-lost", mutant.Cond("false && (WAS)")), mutant.At("terraform-lost-meanwhile", mutant.Cond("false"))},
	})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
