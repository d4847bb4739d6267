package filestore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a broken store that differs in one place.
func one(name, test, file, old, new string) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "filestore", Test: test, Edits: []mutant.Edit{{File: "filestore/" + file, Old: old, New: new}}}
}

const (
	bootTest = "TestAnotherBootIDDropsOnlyWhatARebootEnded"
	swapTest = "TestTheModeOfAFilePutInPlaceIsNotChanged"
)

var mutants = []mutant.Broken{
	// Another boot id.
	one("another boot id drops all", bootTest, "section.go", "string(found.boot) != s.boot && s.rebooted(fl) {\n\t\ts.keepLiving(&fl.q)",
		"string(found.boot) != s.boot {\n\t\tfl.q.Entries = fl.q.Entries[:0]"),
	one("a reboot drops the living", bootTest, "boot.go", "return !s.living(e.ID.Process())", "return true"),
	one("another boot id is a reboot", bootTest, "section.go", "&& s.rebooted(fl)", ""),
	one("a reboot drops nothing", bootTest, "section.go", "string(found.boot) != s.boot &&", "string(found.boot) == \"\" &&"),
	one("only the file's time tells of a reboot", bootTest, "boot.go", "return e.Since > now.Clock", "return now.Clock < 0"),
	one("only the clock tells of a reboot", bootTest, "boot.go", "return s.beforeBoot(fl) || slices", "return slices"),

	// A directory that a group shares.
	one("the mode of a FIFO is set by its path", swapTest, "make_unix.go", "if err = ours(fd, unix.S_IFIFO); err == nil {\n\t\t\terr = unix.Fchmod(fd, uint32(s.fileMode))\n\t\t}", "err = os.Chmod(path, s.fileMode)"),
	one("a FIFO is not looked at", swapTest, "make_unix.go", "if err = ours(fd, unix.S_IFIFO); err == nil {", "if err == nil {"),
	one("the mode of a file is set by its path", swapTest, "make_unix.go", "if err = f.Chmod(mode); err == nil {", "if err = os.Chmod(temp, mode); err == nil {"),
	one("the mode of a part is set by its path", swapTest, "make_unix.go", "if err := chmodDir(temp); err != nil {", "if err := os.Chmod(temp, 0o770|fs.ModeSetgid); err != nil {"),
	one("a file has its name before its mode", "TestWhatIsSeenInASharedDirectoryCanBeUsedByAll", "make_unix.go", "\tisMade(temp)\n\tif err = f.Chmod(mode); err == nil {\n\t\terr = linkTo(f, temp, path)\n\t}\n",
		"\tif err = linkTo(f, temp, path); err == nil {\n\t\tisMade(temp)\n\t\terr = f.Chmod(mode)\n\t}\n"),
	one("a part has its name before its mode", "TestWhatIsSeenInASharedDirectoryCanBeUsedByAll", "make_unix.go", "\ttemp := temporary(path)\n\tif err := os.Mkdir(temp", "\ttemp := path\n\tif err := os.Mkdir(temp"),
	one("what was left of a maker stays", "TestACleanUpRemovesNamesUnusedForADayAndNoOthers", "clean.go", "newPrefix):\n\t\t\t\tos.Remove(path)", "newPrefix):"),
}

// Each of these must be caught by its test.
func TestAFileStoreWithOneWrongLineIsCaught(t *testing.T) {
	mutant.Catch(t, mutants)
}
