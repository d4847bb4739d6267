//go:build linux || darwin

package filestore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestTheDirectoryIsMadeForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "locks")
	defer syscall.Umask(syscall.Umask(0))
	s := open(t, dir)
	defer s.Close()
	lockSoon(t, s, "name")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, want access for the owner alone", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, s, "directory"); f.Level() != store.LevelOK || !strings.Contains(f.Text(), dir) {
		t.Errorf("%s: %q", f.Level(), f.Text())
	}
	// Temporary files may be on an unknown kind of file system.
	if f := finding(t, s, "file system"); f.Level() == store.LevelFailure || (f.Level() == store.LevelOK) != strings.Contains(f.Text(), "of this host alone") {
		t.Errorf("%s: %q", f.Level(), f.Text())
	}
}

// finding is what the check says about something.
func finding(t *testing.T, s *Store, about string) store.Finding {
	t.Helper()
	all := s.Check(t.Context())
	for _, f := range all {
		if f.About == about {
			return f
		}
	}
	t.Fatalf("no finding about the %s in %+v", about, all)
	return store.Finding{}
}

// mkdir makes a directory of exactly that mode.
func mkdir(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	refused := func(t *testing.T, dir string, want error, words ...string) {
		t.Helper()
		s, err := Open(dir, trusting)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
		for _, w := range append(words, dir) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, namesDir)); err == nil {
			t.Error("Open created something in a directory that it refused")
		}
	}
	for _, mode := range []fs.FileMode{0o770, 0o707, 0o777, 0o777 | fs.ModeSticky, 0o777 | fs.ModeSetgid, 0o775 | fs.ModeSetgid, 0o770 | fs.ModeSticky} {
		t.Run(mode.String(), func(t *testing.T) { refused(t, mkdir(t, mode), store.ErrDenied, "chmod 700") })
	}
	t.Run("a link", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(mkdir(t, 0o700), link); err != nil {
			t.Fatal(err)
		}
		refused(t, link, store.ErrInvalid, "symbolic link")
	})
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file, trusting); err == nil || !strings.Contains(err.Error(), file) {
			t.Fatalf("got %v, want an error that names the file", err)
		}
	})
	t.Run("no name", func(t *testing.T) { refused(t, "", store.ErrInvalid, "directory") })
	t.Run("another's", func(t *testing.T) {
		dir := "/" // root's
		if os.Geteuid() == 0 {
			dir = mkdir(t, 0o700)
			if err := os.Chown(dir, 65534, -1); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, dir, store.ErrDenied, "belongs to user")
	})
	if os.Geteuid() == 0 {
		t.Run("of another user, shared with a group", func(t *testing.T) {
			dir := mkdir(t, 0o770)
			if err := errors.Join(os.Chown(dir, 65534, -1), os.Chmod(dir, 0o770|fs.ModeSetgid)); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, store.ErrDenied, "belongs to user")
		})
	}
	t.Run("a subdirectory that others can write to", func(t *testing.T) {
		dir := mkdir(t, 0o700)
		open(t, dir).Close()
		if err := os.Chmod(filepath.Join(dir, namesDir), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, trusting); !errors.Is(err, store.ErrDenied) {
			t.Fatalf("got %v, want ErrDenied", err)
		}
	})
	t.Run("a directory that cannot be created", func(t *testing.T) {
		parent := mkdir(t, 0o500)
		if os.Geteuid() == 0 {
			parent = "/proc" // root can write to all other directories
		}
		_, err := Open(filepath.Join(parent, "locks"), trusting)
		if err == nil || !strings.Contains(err.Error(), parent) || os.Geteuid() != 0 && !errors.Is(err, store.ErrDenied) {
			t.Fatalf("got %v, want an error that names the directory", err)
		}
	})
}

// A user that can make a link in the directory could point a name at a file of another directory, and so mix their locks.
func TestASymlinkAtAStateFilesPathIsNotFollowed(t *testing.T) {
	other, s := open(t, mkdir(t, 0o700)), open(t, mkdir(t, 0o700))
	defer other.Close()
	defer s.Close()
	lockSoon(t, other, "name")
	before, err := os.ReadFile(other.path("name"))
	if err == nil {
		err = os.Symlink(other.path("name"), s.path("name"))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if a, err := s.Ask(ctx, lockOf(s.anyProcess(), "name")); err == nil || ctx.Err() != nil {
		t.Errorf("got %+v, %v, want an error at once", a, err)
	}
	if after, err := os.ReadFile(other.path("name")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file behind the link was changed (%v)", err)
	}
}

// Mode 2770 is no umask's default: it says that a group shares the directory.
func TestADirectoryOfMode2770IsSharedByItsGroup(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := mkdir(t, 0o770|fs.ModeSetgid)
	s := open(t, dir)
	defer s.Close()
	lockSoon(t, s, "name")
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		found++
		info, err := d.Info()
		want := fs.FileMode(0o660)
		if d.IsDir() {
			want = 0o770
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		return err
	})
	if err != nil || found < 5 {
		t.Fatalf("found %d files, want at least 5; error %v", found, err)
	}
	if f := finding(t, s, "directory"); f.Level() != store.LevelWarning || !strings.Contains(f.Text(), "group") {
		t.Errorf("%s: got %q, want a warning that a group shares it", f.Level(), f.Text())
	}
}

func TestACopyOnWriteFileSystemIsWarnedOf(t *testing.T) {
	kind := "ext"
	set(t, &statfs, func(string) (string, bool, error) { return kind, true, nil })
	s := open(t, t.TempDir())
	defer s.Close()
	for name, warns := range map[string]bool{"ext": false, "xfs": false, "tmpfs": false, "btrfs": true, "zfs": true, "bcachefs": true} {
		kind = name
		if f := finding(t, s, "file system"); f.Warning != warns || f.Err != nil || !strings.HasPrefix(f.Found, kind+", ") || strings.Contains(f.Found, "full") != warns {
			t.Errorf("%s: %s: %q", kind, f.Level(), f.Text())
		}
	}
}

func TestAFileSystemThatHostsShareIsRefused(t *testing.T) {
	set(t, &statfs, func(string) (string, bool, error) { return "NFS", false, nil })
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "NFS") || !strings.Contains(err.Error(), "trust-fs=1") || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v, %v, want ErrUnsupported with the kind, the directory and what to do", s, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	s, err = Open(dir, &Options{TrustFS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if f := finding(t, s, "file system"); f.Level() != store.LevelWarning || !strings.Contains(f.Text(), "NFS") {
		t.Errorf("%s: got %q, want a warning with the kind", f.Level(), f.Text())
	}
	statfs = func(string) (string, bool, error) { return "", false, errors.New("no answer") }
	if f := finding(t, s, "file system"); !errors.Is(f.Err, store.ErrUnavailable) {
		t.Errorf("%s: got %q, want a failure", f.Level(), f.Text())
	}
	if _, err := Open(dir, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
}

func TestDefaultDir(t *testing.T) {
	u, err := user.Current()
	if err != nil {
		t.Skipf("this user is not in the user database: %v", err)
	}
	for home, want := range map[string]string{"/home/x": "/home/x", "": u.HomeDir, "relative": ""} {
		t.Setenv("HOME", home)
		t.Setenv("XDG_RUNTIME_DIR", "/session")
		t.Setenv("XDG_STATE_HOME", "/state")
		got, err := DefaultDir()
		switch {
		case u.Uid == strconv.Itoa(0):
			if err != nil || !strings.HasSuffix(got, "/run/holdfast") {
				t.Errorf("HOME=%q: %q, %v", home, got, err)
			}
		case want == "":
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("HOME=%q: got %q, %v, want ErrInvalid", home, got, err)
			}
		case err != nil || got != filepath.Join(want, ".local/state/holdfast"):
			t.Errorf("HOME=%q: %q, %v", home, got, err)
		}
	}
}
