package filestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// idOf identifies the file at the path.
func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileID{uint64(st.Dev), st.Ino}, err
}

// linkTo gives the open file, which has the temporary name, another name. On
// this system a file cannot be linked by its descriptor. A member of the group
// that substitutes another file gains nothing: it can as well put one at the
// name itself, and a process that locks a file checks that it is in place.
func linkTo(_ *os.File, temp, path string) error { return os.Link(temp, path) }

// unmapped is for user namespaces, which are Linux's.
func unmapped() int { return -1 }
