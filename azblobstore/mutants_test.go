package azblobstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. The part that it shares with other backends is tried in package object
// as well.
func TestTheTestsCatchEachMutantOfAzureBlob(t *testing.T) {
	t.Parallel()
	testserver.SharedAzure(t) // the tests under mutation use it, too
	const suite = "TestBackend/promise/"
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a write depends on nothing", suite + "a_swap_on_an_older_version_is_refused", "azblob-write-depends", mutant.Stmt("c := &blob.ModifiedAccessConditions{}; _ = tag")},
		{"a first write depends on nothing", suite + "a_swap_on_no_version_is_done_only_where_nothing_is", "azblob-first-write-depends", mutant.Stmt("c = &blob.ModifiedAccessConditions{}; _ = any")},
		{"a deletion depends on nothing", "TestServer", "azblob-delete-depends", mutant.Delete()},
		{"a request is sent again", "TestEachRequestIsSentOnce", "azblob-sent-once", mutant.Delete()},
		{"the check is silent about times", "TestAServerWithoutTimesIsUsed", "azblob-check-of-times", mutant.Cond("false")},
		{"an account is used that keeps versions", "TestAnAccountWithVersioningIsRefused", "object-trial-of-rules", mutant.Cond("WAS && false")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "azblobstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
