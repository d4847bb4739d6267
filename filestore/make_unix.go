//go:build linux || darwin

package filestore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// In a directory that a group shares, a new file does not have its mode at once, because
// the umask removes bits. Other members must never see it in that state: they would be
// denied access, permanently if its creator died then. Setting the mode by path is not
// safe either, because a member can replace the file meanwhile. So a file is created under
// a temporary name, gets its mode by its descriptor, and then its final name.

func temporary(path string) string { return filepath.Join(filepath.Dir(path), newPrefix+rand.Text()) }

// onMade is called with the path of each file that has been created and does not have its
// mode yet. Tests set it to act there as another process could.
var onMade func(path string)

func isMade(path string) {
	if onMade != nil {
		onMade(path)
	}
}

// makeShared creates a regular file of exactly that mode and opens it for reading and
// writing. The error matches fs.ErrExist if the file exists.
func makeShared(path string, mode fs.FileMode) (*os.File, error) {
	temp := temporary(path)
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp)                // removes whatever has the name now
	isMade(temp)                         //mutant:file-before-its-mode
	if err = f.Chmod(mode); err == nil { //mutant:file-mode-by-descriptor
		err = linkTo(f, temp, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// makeDir creates a part of the directory if it is missing. An existing part that this user
// owns gets the mode that a shared directory needs.
func makeDir(path string, shared bool) error {
	if !shared {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		if fits, _ := checkDir(path, true); !fits {
			chmodDir(path) // an older version created it; if another user owns it, prepare reports the error
		}
		return nil
	}
	temp := temporary(path) //mutant:file-dir-temporary-name
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer os.Remove(temp)
	isMade(temp)
	if err := chmodDir(temp); err != nil { //mutant:file-dir-mode-by-descriptor
		return err
	}
	// A directory that exists by now is as good; an empty one is replaced.
	if err := os.Rename(temp, path); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// chmodDir gives a directory of this user the mode of a shared one.
func chmodDir(path string) error {
	fd, err := openNoFollow(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := madeByUs(fd, unix.S_IFDIR); err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f.Chmod(0o770 | fs.ModeSetgid)
}

// makeFIFO creates a FIFO and opens both its ends, so that opening does not block and reads
// do not end. It needs no temporary name: no other process knows the FIFO's name yet.
func (s *Store) makeFIFO(p store.Process, kind string) (f *os.File, err error) {
	err = s.inDir(func() error {
		f, err = s.tryFIFO(s.fifo(p, kind))
		return err
	})
	return f, err
}

func (s *Store) tryFIFO(path string) (*os.File, error) {
	err := unix.Mkfifo(path, uint32(s.fileMode))
	if err != nil && !errors.Is(err, fs.ErrExist) { // another Store of this process may have made it
		return nil, &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	if err == nil {
		isMade(path)
	}
	fd, err := openFIFO(path, unix.O_RDWR)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if s.shared {
		isMade(path)
		if err = madeByUs(fd, unix.S_IFIFO); err == nil { //mutant:file-fifo-ours
			err = unix.Fchmod(fd, uint32(s.fileMode))
		}
		if err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
	return f, nil
}

// madeByUs refuses a file that this process did not create, that is, a substitute by a
// member of the group. The error matches fs.ErrPermission.
func madeByUs(fd int, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint32(st.Mode)&unix.S_IFMT != kind || int(st.Uid) != os.Geteuid() || kind != unix.S_IFDIR && st.Nlink != 1 {
		return fmt.Errorf("%w: a member of the group has put another file in its place", fs.ErrPermission)
	}
	return nil
}
