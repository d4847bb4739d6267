package filestore

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// A fileID distinguishes an open file from all others.
type fileID struct{}

// openState opens a state file for reading and writing, and creates it if create is set.
// It never reports a file as made, so no clean-up starts: an open file cannot be removed
// on Windows, and a clean-up has to open a file to lock it.
func openState(path string, create bool, mode fs.FileMode) (f *os.File, id fileID, made bool, err error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err = os.OpenFile(path, flags, mode)
	return f, id, false, err
}

// lockAt is the offset of the lock. A Windows lock blocks access to the locked bytes, so
// this is far behind all data.
const lockAt = 1 << 30

// tryLock locks the file, without waiting.
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

// inPlace is always true: an open file cannot be removed.
var inPlace = func(string, fileID) bool { return true }
