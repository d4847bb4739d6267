package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// checkout returns a directory with the files of a commit. The directory is kept, by commit, so
// that the go command need not compile it again next time.
func checkout(of string) (dir string, err error) {
	commit, err := git("rev-parse", "--verify", "--quiet", of+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%s is not here: fetch the whole history (git fetch --unshallow --tags)", of)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "holdfast-test", "api", commit)
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := extract(commit, part); err != nil {
		return "", err
	}
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process made it meanwhile
		return "", err
	}
	return dir, nil
}

// extract writes the files of a commit to a directory.
func extract(commit, dir string) error {
	cmd := exec.Command("git", "archive", "--format=tar", commit)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	files := tar.NewReader(out)
	for {
		h, err := files.Next()
		if err == io.EOF {
			return cmd.Wait()
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = write(filepath.Join(dir, filepath.FromSlash(h.Name)), files)
		}
		if err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
}

func write(file string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
