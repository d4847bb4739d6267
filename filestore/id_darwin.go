package filestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// idOf identifies the file at path.
func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileID{uint64(st.Dev), st.Ino}, err
}

// linkTo links the open file, which has the temporary name temp, at path. macOS cannot
// link a file by its descriptor. A group member that substitutes another file gains
// nothing: it can also put a file at path itself, and a process that locks a file
// checks that the file is in place.
func linkTo(_ *os.File, temp, path string) error { return os.Link(temp, path) }

// unmapped is always -1: only Linux has user namespaces.
func unmapped() int { return -1 }
