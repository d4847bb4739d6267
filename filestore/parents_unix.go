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

// checkParents refuses a directory if another user can write to a directory on the way to
// it, from the root on and through links: the directory could be replaced, and processes
// with the old one and with the new one would hold the same names. Another user is not root,
// not this user, and not in the group that shares the directory, and may write by the mode
// or, on Linux, by the ACL. In a sticky directory, such as /tmp, others can create files but
// not move those of this user. Missing directories on the way are created, owned by this
// user.
func checkParents(dir string) error {
	const maxLinks = 40 // as Linux has it
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
			return nil // the directory itself is for checkDir
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // of .. the same: at has no links
	}
}

// checkParent looks at one directory, or link, on the way.
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

// checkACL refuses a directory on the way that a named other user may write to. An ACL
// can allow that only if the mode has group write: those bits are the most that a named
// user gets.
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

// trustedGroup reports whether the members of the group may write on the way:
// that of root, that which shares the directory, and this user's own, which has
// its name and number and was made with it (so many systems have umask 002).
func trustedGroup(gid, sharing int) bool {
	if gid == 0 || gid == sharing || runtime.GOOS == "darwin" && gid == 1 { // daemon, whose /var/run is //mutant:file-way-sharing-group
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
