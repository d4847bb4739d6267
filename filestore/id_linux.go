package filestore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// idOf identifies the file at path. It requests no other attribute: once the times of a
// file have been read, the next write has to give it finer timestamps and costs half as
// much again.
func idOf(path string) (fileID, error) {
	var stx unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &stx)
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a container that does not allow statx
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		return fileID{st.Dev, st.Ino}, err
	}
	return fileID{unix.Mkdev(stx.Dev_major, stx.Dev_minor), stx.Ino}, err
}

// linkTo links the open file, which has the temporary name temp, at path. It uses the
// descriptor, because another file may have the temporary name by now.
func linkTo(f *os.File, temp, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: temp, New: path, Err: err}
	}
	return nil
}

// unmapped returns the owner that a user namespace shows for files whose owner it does
// not map, usually the host's root; -1 if every owner is mapped.
var unmapped = sync.OnceValue(func() int {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(ids)), " ") == "0 0 4294967295" {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	id, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil {
		return -1
	}
	return id
})
