package filestore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// idOf identifies the file at the path. It asks for nothing else: after a look
// at its times, the next write to the file would have to give it finer ones,
// and costs half as much again.
func idOf(path string) (fileID, error) {
	var stx unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &stx)
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a container that does not know it
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		return fileID{st.Dev, st.Ino}, err
	}
	return fileID{unix.Mkdev(stx.Dev_major, stx.Dev_minor), stx.Ino}, err
}

// linkTo gives the open file, which has the temporary name, another one. It is
// identified by its descriptor: another file may have the temporary name by now.
func linkTo(f *os.File, temp, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: temp, New: path, Err: err}
	}
	return nil
}

// unmapped is the owner that files have in a user namespace which does not know
// their own, -1 where every owner is known. Usually it is root of the host.
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
