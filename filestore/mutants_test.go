package filestore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a broken store that differs in one place.
func one(name, test, file, old, new string) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "filestore", Test: test, Edits: []mutant.Edit{{File: "filestore/" + file, Old: old, New: new}}}
}

const bootTest = "TestAnotherBootIDDropsOnlyWhatARebootEnded"

var mutants = []mutant.Broken{
	// Another boot id.
	one("another boot id drops all", bootTest, "section.go", "string(found.boot) != s.boot && s.rebooted(fl) {\n\t\ts.keepLiving(&fl.q)",
		"string(found.boot) != s.boot {\n\t\tfl.q.Entries = fl.q.Entries[:0]"),
	one("a reboot drops the living", bootTest, "boot.go", "return !s.living(e.ID.Process())", "return true"),
	one("another boot id is a reboot", bootTest, "section.go", "&& s.rebooted(fl)", ""),
	one("a reboot drops nothing", bootTest, "section.go", "string(found.boot) != s.boot &&", "string(found.boot) == \"\" &&"),
	one("only the file's time tells of a reboot", bootTest, "boot.go", "return e.Since > now.Clock", "return now.Clock < 0"),
	one("only the clock tells of a reboot", bootTest, "boot.go", "return s.beforeBoot(fl) || slices", "return slices"),
}

// Each of these must be caught by its test.
func TestAFileStoreWithOneWrongLineIsCaught(t *testing.T) {
	mutant.Catch(t, mutants)
}
