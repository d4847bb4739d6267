//go:build linux || darwin

package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

// DefaultDir returns the directory that holdfast uses unless you name another: for
// root /run/holdfast (on macOS /var/run/holdfast), for other users
// .local/state/holdfast in the home directory. The home directory is $HOME or, if that
// is unset, the one in the user database. No session variable counts, because a cron
// job and a login shell of one user must find the same locks. The error matches
// store.ErrInvalid if there is no home directory.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		if runtime.GOOS == "darwin" {
			return "/var/run/holdfast", nil
		}
		return "/run/holdfast", nil
	}
	home := os.Getenv("HOME")
	if home == "" {
		u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
		if err != nil {
			return "", fmt.Errorf("%w: HOME is unset and user %d is not in the user database (%w): name a directory", store.ErrInvalid, os.Geteuid(), err)
		}
		home = u.HomeDir
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("%w: the home directory %q is no absolute path: name a directory", store.ErrInvalid, home)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// whoWrites says who can write to a directory that is not shared.
const whoWrites = "this user's own, and no other can write to it"

// checkDir reports whether a group shares dir, or refuses dir. A user that can open a state
// file for reading can lock it forever, and one that can write to the directory can replace
// a file. So this user must own dir and no other user may write to it; or dir is shared: mode
// 2770, owned by root or this user, with a group that this user is in. (A part of a shared
// directory belongs to the user that created it.)
func checkDir(dir string, part bool) (shared bool, err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return false, fmt.Errorf("%w: %s is a symbolic link, which could be pointed elsewhere: name the directory itself", store.ErrInvalid, dir)
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%w: %s is not a directory", store.ErrInvalid, dir)
	}
	st := info.Sys().(*syscall.Stat_t)
	uid := os.Geteuid()
	if isShared(info) {
		groups, _ := os.Getgroups() // on an error use only the effective group
		if !slices.Contains(append(groups, os.Getegid()), int(st.Gid)) && uid != 0 {
			return false, fmt.Errorf("%w: the directory %s is shared by the group %d, which user %d is not in", store.ErrDenied, dir, st.Gid, uid)
		}
		if int(st.Uid) != uid && st.Uid != 0 && !part { //mutant:file-shared-of-anybody
			return false, fmt.Errorf("%w: the directory %s is shared by a group but belongs to user %d: only one that root or user %d owns can be trusted", store.ErrDenied, dir, st.Uid, uid)
		}
		return true, nil
	}
	if int(st.Uid) != uid {
		return false, fmt.Errorf("%w: the directory %s belongs to user %d, and this is user %d: use one of your own, or have root create one of mode 2770 for a group", store.ErrDenied, dir, st.Uid, uid)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return false, fmt.Errorf("%w: others can write to the directory %s (mode %#o), and so take or break any lock: chmod 700 it, or 2770 to share it with its group", store.ErrDenied, dir, perm)
	}
	return false, nil
}

// isShared reports whether a directory has the mode of a shared one, 2770.
func isShared(info fs.FileInfo) bool {
	return info.Mode()&(fs.ModeDir|fs.ModePerm|fs.ModeSetgid|fs.ModeSticky) == fs.ModeDir|0o770|fs.ModeSetgid
}

func denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
