package filestore

import (
	"os"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a broken store that differs in one place.
func one(name, test, file, old, new string) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "filestore", Test: test, Edits: []mutant.Edit{{File: "filestore/" + file, Old: old, New: new}}}
}

const (
	bootTest   = "TestAnotherBootIDDropsOnlyWhatARebootEnded"
	fullTest   = "TestAFullDiskEndsNoHold"
	parentTest = "TestADirectoryThatOthersCanReplaceIsRefused"
	swapTest   = "TestTheModeOfAFilePutInPlaceIsNotChanged"
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
	one("a shared directory that was removed is made private", "TestASharedDirectoryThatWasRemovedIsNotMadePrivate", "dir.go", "\tif s.shared {\n", "\tif s.shared && s.dir == \"\" {\n"),
	one("a directory that is removed is made once more", "TestADirectoryThatIsRemovedIsNoError", "dir.go", "n < often &&", "n < 1 &&"),

	// The way to the directory.
	one("nobody looks at the way", parentTest, "parents_unix.go", "if err := checkParent(dir, at, info, sharing); err != nil {", "if err := checkParent(dir, at, info, sharing); err != nil && dir == \"\" {"),
	one("links are not followed", parentTest, "parents_unix.go", "if info.Mode()&fs.ModeSymlink != 0 {", "if info.Mode()&fs.ModeSymlink != 0 && dir == \"\" {"),
	one("who may write is not asked", parentTest, "parents_unix.go", "perm&0o002 == 0 && (", "perm != 0 || ("),
	one("a sticky directory is refused", parentTest, "parents_unix.go", "(fs.ModeSticky|fs.ModeSymlink) != 0 ||", "fs.ModeSymlink != 0 ||"),

	// A full disk.
	one("no room is reserved", fullTest, "section.go", "if room == fl.room {", "if room >= fl.room {"),
	one("only the slot that is written has room", fullTest, "section.go", "{newest: fl.size, fl.next: len(fl.buf)}", "{newest: room, fl.next: len(fl.buf)}"),
	one("only the other slot has room", fullTest, "section.go", "{newest: fl.size, fl.next: len(fl.buf)}", "{newest: fl.size, fl.next: room}"),
	one("no room for a longer owner", fullTest, "record.go", "entries*(entryFixed+store.MaxOwner+store.MaxReason)", "entries*entryFixed"),
	one("who comes is written though no room was reserved", fullTest, "section.go", "if comes {", "if comes && room == 0 {"),
	one("a renewal fails for want of room for others", "TestARenewalIsWrittenThoughNoRoomWasReserved", "section.go", "if comes {", "if comes || room > 0 {"),
	one("an entry is gone before that is written", "TestAReleaseThatIsNotWrittenLeavesAnEntryWithAnOwner", "ops.go", "\tif err2 != nil {\n\t\treturn err2\n\t}\n\ts.count(h.ID.Process(), gone, -1)\n",
		"\ts.count(h.ID.Process(), gone, -1)\n\tif err2 != nil {\n\t\treturn err2\n\t}\n"),
}

// Those that only a test with two users catches.
var mutantsForRoot = []mutant.Broken{
	one("anybody may own the way", parentTest, "parents_unix.go", "owner != 0 && owner != uid &&", "owner < 0 &&"),
	one("any group may write", parentTest, "parents_unix.go", "if gid != os.Geteuid() {\n\t\treturn false", "if gid != os.Geteuid() {\n\t\treturn true"),
	one("the group that shares it may not write to its parent", "TestTheGroupThatSharesADirectoryMayWriteToItsParent", "parents_unix.go", "|| gid == sharing ||", "||"),
}

// Each of these must be caught by its test.
func TestAFileStoreWithOneWrongLineIsCaught(t *testing.T) {
	all := mutants
	if os.Geteuid() == 0 {
		all = slices.Concat(mutants, mutantsForRoot)
	}
	mutant.Catch(t, all)
}
