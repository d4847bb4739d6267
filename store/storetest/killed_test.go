package storetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Several processes share files without a server. There the end of a process is seen at once.
func TestTheNextIsGrantedOnceAHolderIsKilled(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return t.TempDir() },
		Open: func(t *testing.T, dir string) store.Store {
			s, err := filestore.Open(dir, &filestore.Options{TrustFS: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}

func TestTheTestsCatchEachMutantThatKeepsTheDead(t *testing.T) {
	t.Parallel()
	unseen := mutant.At("dead-is-expired", mutant.Cond("e == nil"))
	var all []mutant.Broken
	for name, edits := range map[string][]mutant.Edit{
		"dead processes hold for some seconds more": {unseen, mutant.At("repeated-grant-draws-new", mutant.Value("max(e.Expires, now.Clock+micros(c.TTL)+3_000_000)"))},
		"dead processes hold forever":               {unseen, mutant.At("repeated-grant-draws-new", mutant.Value("now.Clock + 1<<50"))},
	} {
		all = append(all, mutant.Broken{Name: name, Pkg: "store/storetest", Test: "TestTheNextIsGrantedOnceAHolderIsKilled", Edits: edits})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=3s")
}
