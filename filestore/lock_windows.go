package filestore

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// A fileID distinguishes a file from all others while it is open.
type fileID struct{}

// openState opens a state file for reading and writing, and makes it if create
// is set. It never says that it made one: a file that is open cannot be
// removed, and it is open to be locked, so there is no cleaning up.
func openState(path string, create bool, mode fs.FileMode) (f *os.File, id fileID, made bool, err error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err = os.OpenFile(path, flags, mode)
	return f, id, false, err
}

// Locks of Windows bar others from the bytes locked, so these are far behind
// all that is ever written.
const lockAt = 1 << 30

// tryLock takes the lock of the file. It never waits.
func tryLock(fd uintptr) (bool, error) {
	err := windows.LockFileEx(windows.Handle(fd), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: lockAt})
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return false, nil
	}
	return err == nil, err
}

func unlock(fd uintptr) {
	windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, &windows.Overlapped{OffsetHigh: lockAt})
}

// inPlace is always so: a file that is open cannot be removed.
var inPlace = func(string, fileID) bool { return true }
