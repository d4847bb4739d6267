package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/store"
)

// The subdirectories of a store's directory.
const (
	namesDir = "n" // one state file per name
	procsDir = "p" // the FIFOs of the processes
)

// newPrefix begins temporary names. If the creator dies, a clean-up removes its file.
const newPrefix = ".new-"

// prepare creates the directory if it is missing, and checks that locks can be kept in
// it. shared reports whether a group shares the directory.
func (s *Store) prepare() (shared bool, err error) {
	if err := checkParents(s.dir); err != nil {
		return false, err
	}
	if s.shared { //mutant:file-shared-dir-removed
		if _, err := os.Lstat(s.dir); errors.Is(err, fs.ErrNotExist) { // the others could not use a private one
			return false, fmt.Errorf("%w: the directory %s, which a group shared, was removed: create it again, with that group and mode 2770", store.ErrUnavailable, s.dir)
		}
	} else if err := os.MkdirAll(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // if it exists, checkDir decides
		return false, s.badDir(err)
	}
	if shared, err = checkDir(s.dir, false); err != nil {
		return false, err
	}
	if err := checkParents(s.dir); err != nil { // another process may have created a missing part first
		return false, err
	}
	if !s.trustFS {
		if err := checkFS(s.dir); err != nil {
			return false, err
		}
	}
	for _, sub := range []string{namesDir, procsDir} {
		sub = filepath.Join(s.dir, sub)
		if err := makeDir(sub, shared); err != nil {
			return false, s.badDir(err)
		}
		if _, err := checkDir(sub, shared); err != nil {
			return false, err
		}
	}
	return shared, nil
}

// inDir calls f, and repeats it while f fails because the directory or a part of it was removed.
func (s *Store) inDir(f func() error) error {
	const often = 100 // so many removals are not accidental
	err := f()
	for n := 0; n < often && errors.Is(err, fs.ErrNotExist); n++ { //mutant:file-dir-made-again
		if _, err = s.prepare(); err == nil {
			err = f()
		}
	}
	return err
}

func (s *Store) badDir(err error) error {
	kind := store.ErrUnavailable
	if denied(err) {
		kind = store.ErrDenied
	}
	return fmt.Errorf("%w: the directory %s cannot be used to keep locks: %w: name another one, or create it yourself", kind, s.dir, err)
}

// checkFS refuses a file system that several hosts may share. flock may or may not work
// across hosts, but FIFOs and the boot clock do not: a holder on another host would look
// dead.
func checkFS(dir string) error {
	kind, local, err := statfs(dir)
	if err != nil {
		return fmt.Errorf("%w: cannot find out the file system of %s: %w", store.ErrUnavailable, dir, err)
	}
	if local {
		return nil
	}
	return fmt.Errorf("%w: %s is on a file system of kind %s: locks, FIFOs and clocks may not be shared between the hosts that use it, "+
		"so two could hold one name: take a directory on a local disk, or trust it (file:%s?trust-fs=1) if no other host can reach it",
		store.ErrUnsupported, dir, kind, dir)
}

// statfs returns the kind of the file system of dir, and whether it is known to belong
// to this host alone. Tests replace it.
var statfs = kindOfFS
