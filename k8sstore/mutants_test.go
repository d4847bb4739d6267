package k8sstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. The part that it shares with other backends is tried in package object
// as well.
func TestTheTestsCatchEachMutantOfKubernetes(t *testing.T) {
	t.Parallel()
	testserver.SharedKubernetes(t) // the tests under mutation use it, too
	const suite, told = "TestBackend/promise/", "TestAHolderIsToldThatClientGoTookItsLease/"
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a swap does not depend on the holder", "TestAClaimThatClientGoOvertakesIsRefused", "k8s-swap-finds-the-holder", mutant.Line(`step{Op: "test", Path: "/kind", Value: "Lease"})`)},
		{"a later write depends on nothing", "TestServer", "k8s-write-depends", mutant.Line(`{Op: "test", Path: "/kind", Value: "Lease"},`)},
		{"a deletion depends on nothing", "TestServer", "k8s-delete-depends", mutant.Delete()},
		{"a note that was taken in stays", suite + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "k8s-note-goes", mutant.Stmt("_ = n")},
		{"a join is done twice", "TestAJoinThatIsDoneTwiceChangesNothing", "k8s-join-again", mutant.Line(`step{Op: "test", Path: "/kind", Value: "Lease"},`)},
		{"the first record of another program's Lease depends on nothing", "TestTheFirstRecordInALeaseDependsOnIt", "k8s-adoption-depends", mutant.Stmt("steps := []step(nil)")},
		{"a holder that uses client-go is ignored", "TestAHolderThatUsesClientGoIsRespected", "k8s-foreign-holder", mutant.Stmt("r.Version = version(l)")},
		{"a holder that uses client-go never ends", "TestAHolderThatUsesClientGoIsGoneWhenItsLeaseHasExpired", "k8s-foreign-holder-ends", mutant.Delete()},
		{"a release that was sent twice is lost", "TestAReleaseThatIsSentTwiceIsNotLost", "k8s-swap-sent-twice", mutant.Cond("WAS && false")},
		{"client-go's use of a Lease of holdfast is not noticed", told + "a_Lease_of_holdfast", "k8s-shared", mutant.Stmt(`r.Shared = a[textRev] == "" || a[textUsed] != ""`)},
		{"client-go's use of a Lease is forgotten", told + "a_Lease_of_client-go", "k8s-use-is-marked", mutant.Delete()},
		{"a holder does not show itself again", "TestAHolderKeepsALeaseThatClientGoReleasesLate", "k8s-free", mutant.Delete()},
		{"a name that was just written is listed as old", "TestASweepPassesWhatIsYoung", "k8s-young-listed", mutant.Cond("unwritten < 0")},
		{"an idle name is deleted early", suite + "an_idle_record_is_there_for_its_retention", "k8s-idle-is-kept", mutant.Cond("unwritten > 0")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "k8sstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, mutant.Broken{Name: "a swap depends on nothing", Pkg: "k8sstore", Test: suite + "a_swap_on_an_older_version_is_refused", Edits: []mutant.Edit{ // the spec has the time of the newest write
		mutant.At("k8s-swap-depends", mutant.Line(`step{Op: "test", Path: "/kind", Value: map[bool]string{true: "Lease", false: rev}[true]},`)),
		mutant.At("k8s-swap-finds-the-holder", mutant.Line(`step{Op: "test", Path: "/kind", Value: "Lease"})`)),
	}})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
