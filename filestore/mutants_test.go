package filestore

import (
	"os"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a store with one defect.
func one(name, test, mark string, do mutant.Op) mutant.Broken {
	return broken(name, test, mutant.At(mark, do))
}

func broken(name, test string, edits ...mutant.Edit) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "filestore", Test: test, Edits: edits}
}

const (
	bootTest   = "TestAnotherBootIDDropsOnlyWhatARebootEnded"
	fullTest   = "TestAFullDiskEndsNoHold"
	restTest   = "TestANameAtRestTakesOnePage"
	parentTest = "TestADirectoryThatOthersCanReplaceIsRefused"
	proofTest  = "TestACleanUpRemovesOnlyLeftoversOfDeadProcesses"
	swapTest   = "TestTheModeOfASubstitutedFileIsNotChanged"
)

var mutants = []mutant.Broken{
	// Another boot id.
	one("another boot id drops all", bootTest, "file-other-boot", mutant.Before("if string(found.boot) != s.boot {\nfl.q.Entries = fl.q.Entries[:0]\n}")),
	one("a reboot drops the living", bootTest, "file-reboot-spares-living", mutant.Return("true")),
	one("another boot id is a reboot", bootTest, "file-other-boot", mutant.Cond("string(found.boot) != s.boot")),
	one("a reboot drops nothing", bootTest, "file-other-boot", mutant.Cond(`string(found.boot) == "" && s.rebooted(fl)`)),
	one("only the file's time shows a reboot", bootTest, "file-rebooted", mutant.Return("s.beforeBoot(fl) || now.Clock < 0")),
	one("only the clock shows a reboot", bootTest, "file-rebooted", mutant.Return("slices.ContainsFunc(fl.q.Entries, func(e queue.Entry) bool { return e.Since > now.Clock })")),

	// A directory that a group shares.
	one("a link in place of a state file is followed", "TestASymlinkAtAStateFilesPathIsNotFollowed", "file-state-behind-a-link", mutant.Value("os.O_RDWR")),
	one("the mode of a FIFO is set by its path", swapTest, "file-fifo-ours", mutant.Stmt("err = os.Chmod(path, s.fileMode)")),
	one("a FIFO is not checked", swapTest, "file-fifo-ours", mutant.Stmt("err = unix.Fchmod(fd, uint32(s.fileMode))")),
	one("the mode of a file is set by its path", swapTest, "file-mode-by-descriptor", mutant.Value("os.Chmod(temp, mode)")),
	one("the mode of a subdirectory is set by its path", swapTest, "file-dir-mode-by-descriptor", mutant.Value("os.Chmod(temp, 0o770|fs.ModeSetgid)")),
	broken("a file has its name before its mode", "TestFilesInASharedDirectoryCanBeUsedByAll",
		mutant.At("file-before-its-mode", mutant.Delete()),
		mutant.At("file-mode-by-descriptor", mutant.Stmt("if err = linkTo(f, temp, path); err == nil {\nisMade(temp)\nerr = f.Chmod(mode)\n}"))),
	one("a subdirectory has its name before its mode", "TestFilesInASharedDirectoryCanBeUsedByAll", "file-dir-temporary-name", mutant.Value("path")),
	one("a file left by a dead creator stays", "TestACleanUpRemovesNamesUnusedForADayAndNoOthers", "file-temporary-cleaned", mutant.Delete()),
	one("a proof of death is removed before its use", proofTest, "file-proof-needed", mutant.Cond("WAS && e.Expires < 0")),
	one("an expired entry keeps a proof of death", proofTest, "file-proof-needed", mutant.Cond("e.Expires > 0")),
	one("an unreadable file names no process", "TestACleanUpKeepsProofsOfDeathIfAFileIsUnreadable", "file-proof-unread", mutant.Cond("WAS && q == nil")),
	one("a shared directory that was removed is made private", "TestASharedDirectoryThatWasRemovedIsNotMadePrivate", "file-shared-dir-removed", mutant.Cond(`s.shared && s.dir == ""`)),
	one("a directory that is removed is made once more", "TestADirectoryThatIsRemovedAgainAndAgainIsMade", "file-dir-made-again", mutant.Cond("n < 1 && errors.Is(err, fs.ErrNotExist)")),

	// The section.
	one("a crowd is an outage", "TestACrowdAtANameIsNoOutage", "file-crowd-is-no-outage", mutant.Cond(`WAS && s.dir == ""`)),
	one("a stuck process is taken for a crowd", "TestACrowdAtANameIsNoOutage", "file-crowd-is-no-outage", mutant.Cond("try.tries > triesAtOnce+int(before)*0")),

	// The path to the directory.
	one("the parents are not checked", parentTest, "file-way-checked", mutant.Cond(`err != nil && dir == ""`)),
	one("links are not followed", parentTest, "file-way-through-links", mutant.Cond(`WAS && dir == ""`)),
	one("the writers of a parent are not checked", parentTest, "file-way-writable", mutant.Cond("WAS || perm != 0")),
	one("a sticky directory is refused", parentTest, "file-way-writable", mutant.Cond("info.Mode()&fs.ModeSymlink != 0 || perm&0o002 == 0 && (perm&0o020 == 0 || trustedGroup(int(st.Gid), sharing))")),

	// Deaths.
	one("a watch that is given up serves the next waiter", "TestAnAbandonedWatchServesNoWaiter", "file-unwanted-watch-is-gone", mutant.Delete()),

	// Many holds at once.
	one("the holds of a name are not in their order", "TestABatchKeepsTheOrderOfOneName", "file-batch-in-order", mutant.Cond("WAS || name != \"\"")),
	one("a name that is locked keeps the others waiting", "TestAProcessStoppedInsideTheSectionIsIndeterminateAndNamed", "file-batch-in-order", mutant.Cond("len(locked) == 0")),

	// A full disk.
	one("a claim is admitted by its present size", "TestAnEntryOfALongQueueCanBeRenewedAndBroken", "file-queue-full", mutant.Cond("len(fl.buf) > longest")),
	one("a full disk is no finding", "TestAFullDiskIsFound", "file-full-disk", mutant.Cond("bytes == 0 && files == 0 && err != nil")),
	one("a copy-on-write file system is no finding", "TestACopyOnWriteFileSystemIsWarnedOf", "file-writes-elsewhere", mutant.Cond("s.shared && !s.shared")),
	one("no room is reserved", fullTest, "file-room-reserved", mutant.Cond("room >= fl.room")),
	one("a name at rest keeps its room", restTest, "file-page-at-rest", mutant.Cond("WAS && fl.room == 0")),
	one("space that another process cut counts as reserved", restTest, "file-room-cut", mutant.Cond("WAS && room == 0")),
	one("only the slot that is written has room", fullTest, "file-room-of-slots", mutant.Value("map[int]int{newest: room, fl.next: len(fl.buf)}")),
	one("only the other slot has room", fullTest, "file-room-of-slots", mutant.Value("map[int]int{newest: fl.size, fl.next: room}")),
	one("no room for a longer owner", fullTest, "file-room-of-entries", mutant.Return("headSize + 2 + len(name) + 2 + len(boot) + 8 + 4 + entries*entryFixed")),
	one("a new claim is written although no space was reserved", fullTest, "file-room-needed-to-come", mutant.Cond("WAS && fl.room < 0")),
	one("a renewal fails because others have no space", "TestARenewalIsWrittenWithoutReservedSpace", "file-room-needed-to-come", mutant.Cond("err != nil && (comes || fl.room >= 0)")),
	one("an entry is forgotten before its release is written", "TestAReleaseThatIsNotWrittenLeavesAnEntryWithAnOwner", "file-release-written-first", mutant.Swap()),
}

// Mutants that only a test with two users catches.
var mutantsForRoot = []mutant.Broken{
	one("any user may own a shared directory", "TestADirectoryThatOthersCanWriteToIsRefused", "file-shared-of-anybody", mutant.Cond("WAS && uid < 0")),
	one("any user may own a parent", parentTest, "file-way-owner", mutant.Cond("owner < 0 && owner != unmapped()")),
	one("any group may write", parentTest, "file-way-own-group", mutant.Return("true")),
	one("the group that shares a directory may not write to its parent", "TestTheGroupThatSharesADirectoryMayWriteToItsParent", "file-way-sharing-group", mutant.Cond(`gid == 0 || runtime.GOOS == "darwin" && gid == 1`)),
}

// Each of these must be caught by its test.
func TestTheTestsCatchEachMutantOfFiles(t *testing.T) {
	all := mutants
	if os.Geteuid() == 0 {
		all = slices.Concat(mutants, mutantsForRoot)
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
