//go:build linux || darwin

package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// A member of the group can replace a file that is being created. Whatever the new
// file is, its mode must not be changed.
func TestTheModeOfASubstitutedFileIsNotChanged(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for what, link := range map[string]func(victim, path string) error{
		"a symbolic link": os.Symlink,
		"a hard link": func(victim, path string) error {
			if err := os.Link(victim, path); err != nil {
				return os.Symlink(victim, path) // a directory
			}
			return nil
		},
	} {
		swaps := 0
		for n := 0; n == swaps; n++ { // until no more files are created
			if path := swapNth(t, n, link); path != "" {
				swaps++
			}
		}
		if swaps < 7 {
			t.Errorf("%s replaced only %d files, want at least 7", what, swaps)
		}
	}
}

// swapNth begins to use a new directory, replaces the nth created file by a link to
// one of our files, and returns its path.
func swapNth(t *testing.T, n int, link func(victim, path string) error) (path string) {
	dir := mkdir(t, 0o770|fs.ModeSetgid)
	victim := filepath.Join(dir, "victim") // on the same file system
	set(t, &onMade, func(made string) {
		if n--; n != -1 {
			return
		}
		path = made
		info, err := os.Lstat(path)
		if err == nil {
			err = os.Remove(path)
		}
		switch {
		case err != nil:
		case info.IsDir():
			err = os.Mkdir(victim, 0o700)
		case info.Mode().IsRegular():
			err = os.WriteFile(victim, nil, 0o600)
		default:
			err = syscall.Mkfifo(victim, 0o600)
		}
		if err == nil {
			err = link(victim, path)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if s, err := Open(dir, trusting); err == nil {
		if w, err := newWaiter(s); err == nil {
			s.Ask(t.Context(), lockOf(w.p, "name"))
		}
		s.Close()
	}
	if info, err := os.Lstat(victim); path != "" && (err != nil || info.Mode().Perm()&0o077 != 0) {
		t.Errorf("a link in place of %s: %v, %v: the mode of its target was changed", path, info.Mode(), err)
	}
	return path
}

// Every file can be used by all members as soon as it has its final name.
func TestFilesInASharedDirectoryCanBeUsedByAll(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := mkdir(t, 0o770|fs.ModeSetgid)
	n := 0
	set(t, &onMade, func(string) {
		n++
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(d.Name(), newPrefix) || strings.HasSuffix(path, liveFIFO) || strings.HasSuffix(path, wakeFIFO) {
				return err // nobody knows the name of a FIFO before it has its mode
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o060 != 0o060 {
				t.Errorf("%s has mode %v, want read and write for the group", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	s := open(t, dir)
	defer s.Close()
	lockSoon(t, s, "name")
	if n < 5 {
		t.Errorf("only %d files were created, want at least 5", n)
	}
}

// Two users use a new directory at the same time, and a directory that another user
// has left at any point of its first use.
func TestTwoUsersOfAGroupCanBothBegin(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	defer syscall.Umask(syscall.Umask(0o077)) // that of the helpers, too
	const group = 54321
	newDir := func() string {
		root := t.TempDir()
		for at := root; at != os.TempDir(); at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(root, "locks")
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			err = os.Chown(dir, 0, group)
		}
		if err == nil {
			err = os.Chmod(dir, 0o770|fs.ModeSetgid)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	as := func(t *testing.T, uid uint32, role, dir, name string) *helper {
		cmd := helperCommand(t, role, dir, name)
		cmd.Path = forAll(t, cmd.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{group}}}
		return startAs(t, cmd)
	}
	t.Run("at the same time", func(t *testing.T) {
		for range 4 {
			dir := newDir()
			a, b := as(t, 54322, "hold", dir, "a"), as(t, 54323, "hold", dir, "b")
			a.says("holding")
			b.says("holding")
			a.end()
			b.end()
			// And each uses the files that the other has created.
			a, b = as(t, 54322, "hold", dir, "b"), as(t, 54323, "hold", dir, "a")
			a.says("holding")
			b.says("holding")
			a.end()
			b.end()
		}
	})
	t.Run("after one that was killed", func(t *testing.T) {
		for n, died := 1, true; died; n++ {
			dir := newDir()
			a := as(t, 54322, "die while making", dir, strconv.Itoa(n))
			said := a.says("")
			died = said != "done"
			a.kill()
			b := as(t, 54323, "hold", dir, "name")
			b.says("holding")
			b.end()
			if !died && n < 5 {
				t.Errorf("only %d files were created, want at least 5", n)
			}
		}
	})
}

// forAll is a copy of the program that every user can start.
func forAll(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(path, b, 0o700)
	}
	if err == nil {
		err = os.Chmod(path, 0o755)
	}
	if err == nil {
		err = os.Chmod(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The role dies when it creates its nth file; it gets n instead of a name.
func init() {
	roles["die while making"] = func(*Store, string) error { return nil }
	if os.Getenv(roleEnv) != "die while making" || len(os.Args) < 3 {
		return
	}
	nth, _ := strconv.Atoi(os.Args[2])
	onMade = func(path string) {
		if nth--; nth == 0 {
			fmt.Println("making", path)
			os.Exit(0)
		}
	}
	roles["die while making"] = func(s *Store, _ string) error {
		w, err := newWaiter(s)
		if err == nil {
			_, err = s.Ask(context.Background(), lockOf(w.p, "name"))
		}
		if err == nil {
			fmt.Println("done")
		}
		return err
	}
}

// A private directory in its place would exclude the other users.
func TestASharedDirectoryThatWasRemovedIsNotMadePrivate(t *testing.T) {
	dir := mkdir(t, 0o770|fs.ModeSetgid)
	s := open(t, dir)
	defer s.Close()
	lockSoon(t, s, "name")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Ask(t.Context(), lockOf(s.anyProcess(), "name")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "2770") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %+v, %v, want ErrUnavailable with what to do", a, err)
	}
	if info, err := os.Lstat(dir); err == nil {
		t.Errorf("the directory was recreated with mode %v", info.Mode())
	}
	if err := os.Mkdir(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o770|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	lockSoon(t, s, "name")
}
