package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// tidy updates go.mod and go.sum of each module to what its code needs, and go.work.sum to what the workspace needs;
// without write it reports which are outdated.
func tidy(all []*module, write bool) error {
	version, err := version()
	if err != nil {
		return err
	}
	var wrong []string
	for _, m := range all {
		same, err := m.tidy(all, version, write)
		if err != nil {
			return err
		}
		if !same {
			wrong = append(wrong, m.dir)
		}
	}
	if len(wrong) > 0 && !write {
		return fmt.Errorf("go.mod or go.sum does not match the code in: %s", strings.Join(wrong, ", "))
	}
	if same, err := tidyWork(write); err != nil || same || write {
		return err
	}
	return errors.New("go.work.sum does not match the workspace")
}

// tidy runs go mod tidy on copies of go.mod and go.sum in which the repository's modules are those of the tree. It
// reports whether the result equals the present files; with write it updates them.
func (m *module) tidy(all []*module, version string, write bool) (same bool, err error) {
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	had, err := m.copyTo(dir, all)
	if err != nil {
		return false, err
	}
	cmd := m.command("go", "mod", "tidy", "-modfile="+filepath.Join(dir, "go.mod"))
	cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("go mod tidy in %s: %w\n%s", m.dir, err, out)
	}
	has := map[string][]byte{}
	for name := range had {
		if has[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return false, err
		}
	}
	if has["go.mod"], err = restored(has["go.mod"], version); err != nil {
		return false, err
	}
	same = true
	for name, text := range has {
		if bytes.Equal(text, had[name]) {
			continue
		}
		if same = false; !write {
			continue
		}
		if err := os.WriteFile(filepath.Join(m.dir, name), text, 0o644); err != nil {
			return false, err
		}
	}
	return same, nil
}

// copyTo copies go.mod, changed by replaced, and go.sum to a directory, and returns their
// original texts.
func (m *module) copyTo(dir string, all []*module) (had map[string][]byte, err error) {
	had = map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		if had[name], err = os.ReadFile(filepath.Join(m.dir, name)); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	text, err := replaced(had["go.mod"], m, all)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"go.mod": text, "go.sum": had["go.sum"]} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return had, nil
}

// command returns a command that runs in the module without the workspace.
func (m *module) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "GOWORK=off")
	return cmd
}

// replaced returns a go.mod in which the other modules are those of the tree.
func replaced(text []byte, m *module, all []*module) ([]byte, error) {
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other == m {
			continue
		}
		at, err := filepath.Abs(other.dir)
		if err != nil {
			return nil, err
		}
		if err := file.AddReplace(other.path, "", at, ""); err != nil {
			return nil, err
		}
	}
	return file.Format()
}

// restored returns a go.mod without the changes of replaced.
func restored(text []byte, version string) ([]byte, error) {
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range append([]*modfile.Replace(nil), file.Replace...) {
		if isOwn(r.Old.Path) {
			if err := file.DropReplace(r.Old.Path, ""); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	if text, err = file.Format(); err != nil {
		return nil, err
	}
	return at(text, version)
}
