//go:build linux || darwin

package filestore

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A fileID distinguishes an open file from all others.
type fileID struct{ dev, ino uint64 }

// openState opens a state file for reading and writing, and creates it if create is set.
// It uses O_CREAT only if the name does not exist, so it also works in a directory that is
// sticky or has another owner (see protected_regular in proc(5)).
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

// tryLock locks the whole file with flock(2), without waiting. All must use flock: other
// kinds of locks do not conflict with it.
func tryLock(fd uintptr) (bool, error) {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func unlock(fd uintptr) { unix.Flock(int(fd), unix.LOCK_UN) }

// inPlace reports whether the open file is the one that a process opening path now would
// get. The comparison is safe because the inode number of an open file cannot be reused.
// A test replaces it to show what goes wrong without it.
var inPlace = func(path string, id fileID) bool {
	there, err := idOf(path)
	return err == nil && there == id
}
