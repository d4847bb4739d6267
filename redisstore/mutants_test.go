package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one thing wrong that only replicas, clusters and fail-overs
// show fails a test. What the rule itself is comes out in storetest.
func TestTheTestsCatchEachMutantOfTheFleet(t *testing.T) {
	t.Parallel()
	const (
		confirm, script, watch, pipe = "redisstore/confirm.go", "redisstore/script.go", "redisstore/watch.go", "redisstore/pipe.go"
		tooFew                       = "TestNothingIsToldAsOursThatTooFewReplicasConfirm"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"a new grant needs no replica", tooFew, script, `"G0123456789"`, `"G"`},
		{"a repeated grant needs no replica", tooFew, script, `"G0123456789"`, `"0123456789"`},
		{"a renewal needs no replica", tooFew, script, `one("renew", "H")`, `one("renew", "")`},
		{"an upgrade needs no replica", tooFew, script, `one("change", "G")`, `one("change", "")`},
		{"one replica less will do", tooFew, confirm, "got < int64(s.replicas)", "got < int64(s.replicas)-1"},
		{"a refusal needs replicas", tooFew, confirm, "return c.script.gives != \"\" &&", "return true ||"},
		{"replicas are asked by another connection", "TestAReplicaThatHangsConfirmsNothing", confirm, "pipe.Process(ctx, wait)", "to.server.Process(ctx, wait)"},
		{"replicas are waited for longer than the client waits", "TestTheWaitForReplicasEndsBeforeTheClientGivesUp", confirm, "bound = min(bound, t/4)", "bound = 4 * t"},
		{"a hint tells what no replica may have", "TestAHintCarriesNoGrantWhereReplicasMustConfirm", watch, "if s.replicas > 0 {", "if s.replicas > 1 {"},
		{"a mailbox is content with a ping", "TestAMailboxAtAPrimaryThatWasCutOffIsOpenedAtTheNewOne", watch, "err := w.s.client.Process(ctx, message)", "err := sub.Ping(ctx, message.Name())"},
		{"nobody looks who has taken over", "TestAFailOverOfAClusterServerLosesNoLeaseThatItsReplicaHasHeardOf", pipe, "\t\ts.reload()\n", ""},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{{File: m.file, Old: m.old, New: m.new}},
		})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s")
}
