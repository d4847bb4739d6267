package filestore

import "golang.org/x/sys/unix"

// idOf identifies the file at the path.
func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileID{uint64(st.Dev), st.Ino}, err
}
