package holdfastkube_test

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
		{"a new term begins unseen after a loss", "TestAfterALossNoNewTermBeginsUnseen", "kube-lost", mutant.Cond("lease != nil && lease.Valid()")},
		{"each candidate has a lock of its own", "TestOneOfManyElectorsLeadsAtATime", "kube-one", mutant.Value("l.locks.With(o).Mutex(l.name + l.identity).TryLock(ctx)")},
		{"a lease renews itself", "TestALeaseEndsWithoutItsElector", "kube-by-hand", mutant.Value("&holdfast.Options{TTL: ttl, Note: l.identity, HandOver: &holdfast.HandOver{}}")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "adapters/holdfastkube", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
