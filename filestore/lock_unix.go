//go:build linux || darwin

package filestore

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A fileID distinguishes a file from all others while it is open.
type fileID struct{ dev, ino uint64 }

// openState opens a state file for reading and writing, and makes it if create
// is set. A directory that is sticky or of another owner is no obstacle: O_CREAT is
// only tried on a name that is not there (see protected_regular in proc(5)).
func openState(path string, create bool, mode fs.FileMode) (f *os.File, id fileID, made bool, err error) {
	const flags = os.O_RDWR | unix.O_NOFOLLOW // O_CLOEXEC is os's own habit //mutant:file-state-behind-a-link
	for {
		f, err = os.OpenFile(path, flags, 0)
		if !create || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if mode&0o077 == 0 {
			f, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, mode)
		} else {
			f, err = makeShared(path, mode)
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		made = err == nil
		break
	}
	if err != nil {
		return nil, id, false, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, id, false, err
	}
	return f, fileID{uint64(st.Dev), st.Ino}, made, nil
}

// tryLock takes the lock of the whole file, flock(2)'s and no other kind: they
// do not see each other. It never waits.
func tryLock(fd uintptr) (bool, error) {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func unlock(fd uintptr) { unix.Flock(int(fd), unix.LOCK_UN) }

// inPlace reports whether the open file is the one that a process coming now
// would open. Comparing is sound because the file is open: its number cannot
// be used again. It is a variable so that a test can show what comes without.
var inPlace = func(path string, id fileID) bool {
	there, err := idOf(path)
	return err == nil && there == id
}
