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
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

// checkParents refuses a directory if another user can write to a directory on the path to
// it, from the root and through links. Such a user could replace the directory, and then
// processes with the old one and the new one would hold the same names. Another user is one
// that is not root, not this user, and not in the group that shares the directory; it may
// have write access by the mode or, on Linux, by the ACL. In a sticky directory, such as
// /tmp, others can create files but cannot move those of this user. If a directory on the
// path is missing, the check ends there: it will be created, owned by this user.
func checkParents(dir string) error {
	const maxLinks = 40 // as in Linux
	sharing := -1
	if info, err := os.Lstat(dir); err == nil && isShared(info) {
		sharing = int(info.Sys().(*syscall.Stat_t).Gid)
	}
	at, rest, links := "/", strings.Split(dir, "/"), 0
	for {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: on the way to the directory %s: %w", store.ErrUnavailable, dir, err)
		}
		if err := checkParent(dir, at, info, sharing); err != nil { //mutant:file-way-checked
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 { //mutant:file-way-through-links
			target, err := os.Readlink(at)
			if links++; err != nil || links > maxLinks {
				return fmt.Errorf("%w: on the way to the directory %s: the link %s leads nowhere (%v)", store.ErrInvalid, dir, at, err)
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		}
		for len(rest) > 1 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if len(rest) <= 1 {
			return nil // checkDir checks the directory itself
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // right for .. too: at has no links
	}
}

// checkParent checks one directory or link on the path.
func checkParent(dir, at string, info fs.FileInfo, sharing int) error {
	st := info.Sys().(*syscall.Stat_t)
	uid := os.Geteuid()
	if owner := int(st.Uid); owner != 0 && owner != uid && owner != unmapped() { //mutant:file-way-owner
		return fmt.Errorf("%w: the directory %s could be replaced by another: %s on the way to it belongs to user %d, and this is user %d: "+
			"name one whose parents belong to root or to this user", store.ErrDenied, dir, at, owner, uid)
	}
	perm := info.Mode().Perm()
	if info.Mode()&(fs.ModeSticky|fs.ModeSymlink) != 0 || perm&0o002 == 0 && (perm&0o020 == 0 || trustedGroup(int(st.Gid), sharing)) { //mutant:file-way-writable
		return checkACL(dir, at, info, sharing)
	}
	return fmt.Errorf("%w: the directory %s could be replaced by another: others can write to %s on the way to it (mode %#o): "+
		"chmod go-w %s, or chmod +t it, or name another directory", store.ErrDenied, dir, at, perm, at)
}

// checkACL refuses a directory on the path if its ACL lets another named user or group
// write. The ACL can allow that only if the mode has group write: those bits limit the
// rights of named users and groups.
func checkACL(dir, at string, info fs.FileInfo, sharing int) error {
	if info.Mode()&(fs.ModeSticky|fs.ModeSymlink) != 0 || info.Mode().Perm()&0o020 == 0 { //mutant:file-way-acl
		return nil
	}
	who, err := namedWriter(at, func(uid int) bool { return uid == 0 || uid == os.Geteuid() }, func(gid int) bool { return trustedGroup(gid, sharing) })
	if err != nil {
		return fmt.Errorf("%w: the directory %s may be one that others can replace: %s on the way to it: %w", store.ErrDenied, dir, at, err)
	}
	if who != "" {
		return fmt.Errorf("%w: the directory %s could be replaced by another: %s can write to %s on the way to it by its ACL: "+
			"take that away (setfacl), or chmod +t it, or name another directory", store.ErrDenied, dir, who, at)
	}
	return nil
}

// trustedGroup reports whether members of the group may write to a directory on the path.
// These groups may: root's; the one that shares the directory; and this user's own group,
// which has the same name and number and was created with the user (many systems then
// use umask 002).
func trustedGroup(gid, sharing int) bool {
	if gid == 0 || gid == sharing || runtime.GOOS == "darwin" && gid == 1 { // daemon, which owns /var/run //mutant:file-way-sharing-group
		return true
	}
	if gid != os.Geteuid() {
		return false //mutant:file-way-own-group
	}
	id := strconv.Itoa(gid)
	u, err1 := user.LookupId(id)
	g, err2 := user.LookupGroupId(id)
	return err1 == nil && err2 == nil && u.Username == g.Name
}
