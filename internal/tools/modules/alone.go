package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// newest are the modules that require the newest drivers, or no driver. All others require the oldest supported ones.
var newest = []string{"bench", "cmd/holdfast", "internal/tools"}

// named returns the modules in these directories, separated by commas. "oldest" is all modules that require the
// oldest drivers, "adapters" all that adapt holdfast to other libraries.
func named(all []*module, dirs string) (these []*module, err error) {
	if dirs == "oldest" {
		return slices.DeleteFunc(slices.Clone(all), func(m *module) bool { return slices.Contains(newest, m.dir) }), nil
	}
	if dirs == "adapters" {
		return slices.DeleteFunc(slices.Clone(all), func(m *module) bool { return !strings.HasPrefix(m.dir, "adapters/") && m.dir != "holdfastprom" }), nil
	}
	for dir := range strings.SplitSeq(dirs, ",") {
		i := slices.IndexFunc(all, func(m *module) bool { return m.dir == dir })
		if i < 0 {
			return nil, fmt.Errorf("there is no module in %q: modules list prints the directories", dir)
		}
		these = append(these, all[i])
	}
	return these, nil
}

// alone runs the go command in each module separately: with the versions that its own go.mod requires or, with newer,
// the newest of the libraries that it names. The repository's modules are those of the tree. Tests are run by
// internal/runtests, which fails if a test is skipped that had to run.
func alone(all []*module, dirs string, args []string, newer bool) error {
	these, err := named(all, dirs)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	tests := []string{"run", "./internal/runtests", "-strict", "-root="}
	var failed []string
	for i, m := range these {
		file, err := m.alone(all, filepath.Join(tmp, fmt.Sprint(i)), newer)
		if err == nil && args[0] == "test" {
			tests = append(tests, "-m", m.dir+"="+file)
			continue
		}
		if err == nil {
			err = shown(m.command("go", append([]string{args[0], "-modfile=" + file}, args[1:]...)...))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "modules: in %s: %v\n", m.dir, err)
			failed = append(failed, m.dir)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("go %s fails in %s", args[0], strings.Join(failed, ", "))
	}
	if args[0] == "test" {
		return shown(exec.Command("go", slices.Concat(tests, []string{"--"}, args[1:])...))
	}
	return nil
}

// alone writes to a directory the go.mod and go.sum for -modfile that separate the module from the workspace; with
// newer they require the newest libraries.
func (m *module) alone(all []*module, dir string, newer bool) (file string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if _, err := m.copyTo(dir, all); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "go.mod")
	if newer {
		if err := m.newer(file); err != nil {
			return "", err
		}
	}
	tidy := m.command("go", "mod", "tidy", "-modfile="+file) // adds the sums that the other modules need
	if out, err := tidy.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go mod tidy: %w\n%s", err, out)
	}
	return file, nil
}

// newer makes the go.mod require the newest version of each third-party library that it names
// itself.
func (m *module) newer(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := modfile.Parse(file, text, nil)
	if err != nil {
		return err
	}
	get := []string{"get", "-modfile=" + file}
	for _, r := range parsed.Require {
		if !r.Indirect && !isOwn(r.Mod.Path) {
			get = append(get, r.Mod.Path+"@latest")
		}
	}
	if len(get) == 2 {
		return nil
	}
	fmt.Printf("%s: go %s\n", m.dir, strings.Join(get[2:], " "))
	if out, err := m.command("go", get...).CombinedOutput(); err != nil {
		return fmt.Errorf("go get of the newest: %w\n%s", err, out)
	}
	return nil
}

// shown runs a command that prints to our output.
func shown(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
