//go:build linux || darwin

package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// A user that can write to a directory on the path can replace what is below
// it.
func TestADirectoryThatOthersCanReplaceIsRefused(t *testing.T) {
	const foreign = 54321 // no one's user and group ids
	for name, c := range map[string]struct {
		mode    fs.FileMode
		owner   int // of the parent; 0: this user
		group   int // the same
		refused bool
	}{
		"others can read":                     {mode: 0o755},
		"only the owner":                      {mode: 0o700},
		"others can write":                    {mode: 0o777, refused: true},
		"others but not the group can write":  {mode: 0o707, refused: true},
		"others can write, in this group":     {mode: 0o777 | fs.ModeSetgid, refused: true},
		"sticky":                              {mode: 0o777 | fs.ModeSticky},
		"a group can write":                   {mode: 0o775, group: foreign, refused: true},
		"a group can write, and it is sticky": {mode: 0o775 | fs.ModeSticky, group: foreign},
		"of another user":                     {mode: 0o755, owner: foreign, refused: true},
		"of another user, and sticky":         {mode: 0o777 | fs.ModeSticky, owner: foreign, refused: true},
		"a group can read":                    {mode: 0o750, group: foreign},
	} {
		for depth, below := range map[string]string{"the parent": "locks", "its parent": "a/locks", "what a link is in": "link/locks", "what a link leads to": "../link/locks"} {
			t.Run(name+", "+depth, func(t *testing.T) {
				root := t.TempDir()
				parent := filepath.Join(root, "parent")
				real := filepath.Join(parent, "a")
				if err := os.MkdirAll(real, 0o700); err != nil {
					t.Fatal(err)
				}
				links := map[string]string{filepath.Join(parent, "link"): t.TempDir(), filepath.Join(root, "link"): real}
				for link, to := range links {
					if err := os.Symlink(to, link); err != nil {
						t.Fatal(err)
					}
				}
				if c.owner != 0 || c.group != 0 {
					if os.Geteuid() != 0 {
						t.Skip("only root can be two users")
					}
					if err := os.Chown(parent, c.owner, c.group); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chmod(parent, c.mode); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(parent, below)
				for _, when := range []string{"before it is created", "once it exists"} {
					s, err := Open(dir, trusting)
					if err == nil {
						s.Close()
					}
					switch {
					case !c.refused && err != nil:
						t.Errorf("%s: %v", when, err)
					case c.refused && (!errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), parent+" ")):
						t.Errorf("%s: got %v, want ErrDenied that names %s and %s", when, err, dir, parent)
					}
					if _, gone := os.Lstat(dir); c.refused && gone == nil && when == "before it is made" {
						t.Error("the directory was created")
					}
					if err := os.MkdirAll(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// Users that share the directory can damage it in other ways as well.
func TestTheGroupThatSharesADirectoryMayWriteToItsParent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	parent := mkdir(t, 0o775)
	dir := filepath.Join(parent, "locks")
	err := os.Mkdir(dir, 0o700)
	for _, path := range []string{parent, dir} {
		err = errors.Join(err, os.Chown(path, 0, 54321))
	}
	if err = errors.Join(err, os.Chmod(dir, 0o770|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	open(t, dir).Close()
	if err := os.Chown(parent, 0, 54322); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(dir, trusting); !errors.Is(err, store.ErrDenied) {
		t.Errorf("got %v, %v, want ErrDenied: another group can write to the parent", s, err)
	}
}
