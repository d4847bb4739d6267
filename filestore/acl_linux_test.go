package filestore

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

func init() {
	const acl = "TestADirectoryThatANamedUserCanReplaceIsRefused"
	mutantsForRoot = append(mutantsForRoot,
		one("a user named in an ACL may write", acl, "file-way-acl", mutant.Cond("sharing > -2")),
		one("in a sticky directory only the mode is checked", acl, "file-way-acl", mutant.Cond("info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&0o020 == 0")),
		one("a named user may write", acl, "file-acl-user", mutant.Cond("tag == aclUser && id < 0")),
		one("a named group may write", acl, "file-acl-group", mutant.Cond("tag == aclGroup && id < 0")),
		one("a named reader counts as a writer", acl, "file-acl-write", mutant.Cond("may == 0")),
		one("no named group is trusted", "TestTheGroupThatSharesADirectoryMayBeNamedInAnACL", "file-acl-group", mutant.Cond("tag == aclGroup")),
	)
}

type aclEntry struct {
	tag, may uint16
	id       int
}

// setACL gives a directory an ACL with these named entries, whose mask is most.
func setACL(t *testing.T, path string, most uint16, named ...aclEntry) {
	t.Helper()
	const none = math.MaxUint32
	users, groups := []aclEntry{{0x01, 7, none}}, []aclEntry{{0x04, 5, none}}
	for _, e := range named { // the kernel requires this order
		if e.tag == aclUser {
			users = append(users, e)
		} else {
			groups = append(groups, e)
		}
	}
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range append(append(users, groups...), aclEntry{0x10, most, none}, aclEntry{0x20, 5, none}) {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.may)
		acl = binary.LittleEndian.AppendUint32(acl, uint32(e.id))
	}
	if err := unix.Setxattr(path, aclAttr, acl, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("this file system has no ACLs: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// A user whom an ACL names can write to a directory although its mode does not show that.
func TestADirectoryThatANamedUserCanReplaceIsRefused(t *testing.T) {
	const foreign = 54321 // no one's user and group ids
	if !trustedGroup(os.Getegid(), -1) {
		t.Skip("only root can be two users, and the group of what this one makes is that of others")
	}
	for name, c := range map[string]struct {
		most    uint16
		named   []aclEntry
		sticky  bool
		refused string
	}{
		"no named entries":                          {most: 7},
		"a user can write":                          {most: 7, named: []aclEntry{{aclUser, 7, foreign}}, refused: "user 54321"},
		"a user can read":                           {most: 7, named: []aclEntry{{aclUser, 5, foreign}}},
		"a user can write, but the mask forbids it": {most: 5, named: []aclEntry{{aclUser, 7, foreign}}},
		"a user can write, and it is sticky":        {most: 7, named: []aclEntry{{aclUser, 7, foreign}}, sticky: true},
		"root can write by name":                    {most: 7, named: []aclEntry{{aclUser, 7, 0}}},
		"this user can write by name":               {most: 7, named: []aclEntry{{aclUser, 7, os.Geteuid()}}},
		"a group can write":                         {most: 7, named: []aclEntry{{aclGroup, 7, foreign}}, refused: "group 54321"},
		"a group can read":                          {most: 7, named: []aclEntry{{aclGroup, 5, foreign}}},
		"the second of two can write":               {most: 7, named: []aclEntry{{aclUser, 5, foreign}, {aclGroup, 7, 0}, {aclGroup, 2, foreign}}, refused: "group 54321"},
		"the group of root can write":               {most: 7, named: []aclEntry{{aclGroup, 7, 0}}},
		"many can read, and one write":              {most: 7, named: append(many(100), aclEntry{aclUser, 2, foreign + 100}), refused: "user 54421"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "parent")
			dir := filepath.Join(parent, "locks")
			if err := os.Mkdir(parent, 0o755); err != nil {
				t.Fatal(err)
			}
			setACL(t, parent, c.most, c.named...)
			if c.sticky {
				info, err := os.Stat(parent)
				if err == nil {
					err = os.Chmod(parent, info.Mode()|os.ModeSticky)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(dir, trusting)
			if err == nil {
				s.Close()
			}
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (!errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), c.refused+" can write to "+parent+" ")):
				t.Errorf("got %v, want ErrDenied that names %s and %s", err, c.refused, parent)
			}
		})
	}
}

// many returns so many entries of users that can read.
func many(n int) (all []aclEntry) {
	for i := range n {
		all = append(all, aclEntry{aclUser, 5, 54321 + i})
	}
	return all
}

// A group that shares the directory may also write to its parent by an ACL entry.
func TestTheGroupThatSharesADirectoryMayBeNamedInAnACL(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	parent := mkdir(t, 0o755)
	dir := filepath.Join(parent, "locks")
	err := os.Mkdir(dir, 0o700)
	if err = errors.Join(err, os.Chown(dir, 0, 54321), os.Chmod(dir, 0o770|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	setACL(t, parent, 7, aclEntry{aclGroup, 7, 54321})
	open(t, dir).Close()
	setACL(t, parent, 7, aclEntry{aclGroup, 7, 54322})
	if s, err := Open(dir, trusting); !errors.Is(err, store.ErrDenied) {
		t.Errorf("got %v, %v, want ErrDenied: another group can write to the parent", s, err)
	}
}
