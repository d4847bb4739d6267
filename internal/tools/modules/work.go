package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// tidyWork compares go.work.sum with what the workspace needs in addition to the sums of its modules, and reports
// whether they are equal; with write it updates go.work.sum. The go command silently adds lines to go.work.sum, and
// never removes one.
func tidyWork(write bool) (same bool, err error) {
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	text, err := elsewhere("go.work", "")
	if err != nil {
		return false, err
	}
	file := filepath.Join(dir, "go.work")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return false, err
	}
	for _, args := range [][]string{{"list", "-m", "all"}, {"list", "-deps", "-test", "work"}} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOWORK="+file)
		if out, err := cmd.CombinedOutput(); err != nil {
			return false, fmt.Errorf("go %s %s in the workspace: %w\n%s", args[0], args[1], err, out)
		}
	}
	const sum = "go.work.sum"
	needs, err := os.ReadFile(filepath.Join(dir, sum))
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	has, err := os.ReadFile(sum)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	if bytes.Equal(needs, has) || !write {
		return bytes.Equal(needs, has), nil
	}
	return false, os.WriteFile(sum, needs, 0o644)
}

// workspace writes to a directory a go.work with this module only, which then uses the versions that it requires.
func (m *module) workspace(dir string) (file string, err error) {
	text, err := elsewhere("go.work", m.dir)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "go.work")
	return file, os.WriteFile(file, text, 0o600)
}

// elsewhere returns the text of a go.work that works in any directory. It has all modules, or just the one in the
// directory only.
func elsewhere(name, only string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	was, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return nil, err
	}
	is := &modfile.WorkFile{Syntax: &modfile.FileSyntax{}}
	if err := is.AddGoStmt(was.Go.Version); err != nil {
		return nil, err
	}
	for _, use := range was.Use {
		if only != "" && filepath.Clean(use.Path) != filepath.FromSlash(only) {
			continue
		}
		at, err := filepath.Abs(use.Path)
		if err != nil {
			return nil, err
		}
		if err := is.AddUse(at, ""); err != nil {
			return nil, err
		}
	}
	for _, r := range was.Replace {
		at, err := filepath.Abs(r.New.Path)
		if err != nil {
			return nil, err
		}
		if err := is.AddReplace(r.Old.Path, r.Old.Version, at, ""); err != nil {
			return nil, err
		}
	}
	return modfile.Format(is.Syntax), nil
}
