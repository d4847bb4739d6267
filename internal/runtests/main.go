// Command runtests has gotestsum run the tests of all modules once, and then reports what
// gotestsum cannot: whether a test was skipped that had to run, and whether a package or a
// module was left out.
//
//	go run ./internal/runtests [-strict] [-freeze PAUSE] [-packages PATTERN] [-m DIR[=MODFILE]]... -- [go test flags]
//
// The modules of the workspace are tested together. The module of each -m is tested by itself, with another go.mod if
// one is named. -packages tests only these packages of the workspace. With -strict a skip that is not on the list in
// skips.go is a failure: a test that did not run because a server is missing has proved nothing. Any failure makes
// the exit status 1, and nothing is run again.
//
// With -freeze all processes of the tests, including servers, are frozen for 8 to 14 seconds now and then, as on a
// machine that stalls: a test that fails only then needs luck. This needs Linux, and permission to make cgroups of
// version 2.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	strict := flag.Bool("strict", false, "a skip that is not on the list is a failure")
	format := flag.String("format", "pkgname", "the `FORMAT` in which gotestsum prints")
	dir := flag.String("json", ".tests", "`DIR` for the events, with one file for the workspace and one for each module")
	root := flag.String("root", ".", "`DIR` of the workspace; the tests of each module below it must run; empty: no workspace")
	packages := flag.String("packages", workspace, "`PATTERN` of the packages of the workspace to test")
	freeze := flag.Duration("freeze", 0, "freeze all processes of the tests now and then, with this pause between on average")
	tools := flag.String("tools", "internal/tools", "`DIR` of the module that has gotestsum")
	var apart []string
	flag.Func("m", "`DIR` of a module outside the workspace to test; DIR=MODFILE uses that file as its go.mod; may be repeated", func(dir string) error {
		apart = append(apart, dir)
		return nil
	})
	flag.Parse()
	failed := func(err error) {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		failed(err)
	}
	program, err := findGotestsum(*tools)
	if err != nil {
		failed(err)
	}
	groups, left, err := groupsOf(*root, *packages, apart)
	if err != nil {
		failed(err)
	}
	runs, ended := (*exec.Cmd).Run, func() {}
	if *freeze > 0 {
		f, err := newFreezer(*freeze, os.Stdout)
		if err != nil {
			failed(err)
		}
		runs, ended = f.run, f.close
	}
	var results []*result
	for _, g := range groups {
		run := gotestsum{program: program, format: *format, events: filepath.Join(*dir, g.file()), out: os.Stdout, run: runs}
		results = append(results, run.tests(g, flag.Args()))
	}
	ended()
	for _, name := range left {
		results[0].failures = append(results[0].failures, failure{name: name})
	}
	if !report(os.Stdout, *strict, results...) {
		os.Exit(1)
	}
}

// findGotestsum returns the path of the program in the module's version. The go command builds it and keeps it in its
// cache.
func findGotestsum(module string) (program string, err error) {
	cmd := exec.Command("go", "-C", module, "tool", "-n", "gotestsum")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build gotestsum: %w\n%s", err, says.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// A group is the packages that one run of go test tests.
type group struct {
	dir      string
	packages string   // the pattern
	env      []string // added to our own
	modfile  []string // the flag that names another go.mod, if any
}

// file returns the name of the file with the group's events.
func (g *group) file() string {
	if slices.Contains(g.env, ofWorkspace) {
		return "workspace.json"
	}
	dir := g.dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir) + ".json"
}

// workspace is the pattern of all packages of a workspace.
const workspace = "work"

// ofWorkspace makes go use the workspace above the directory, whatever our own environment
// says.
const ofWorkspace = "GOWORK="

// groupsOf returns a group for the packages of the workspace, if there is one, and a group for each of the modules
// apart. If all packages are to be tested, left has a failure for each module below the workspace that is in no
// group.
func groupsOf(root, packages string, apart []string) (groups []*group, left []string, err error) {
	var beside []*group
	for _, dir := range apart {
		g := &group{packages: "./...", env: []string{"GOWORK=off"}}
		dir, file, other := strings.Cut(dir, "=")
		if g.dir = dir; other {
			g.modfile = []string{"-modfile=" + file}
		}
		beside = append(beside, g)
	}
	if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil && root != "" {
		g := &group{dir: root, packages: packages, env: []string{ofWorkspace}}
		groups = append(groups, g)
		if packages == workspace {
			if left, err = leftOut(g, beside); err != nil {
				return nil, nil, err
			}
		}
	}
	if groups = append(groups, beside...); len(groups) == 0 {
		return nil, nil, fmt.Errorf("there is no workspace in %s, and no module is named", root)
	}
	return groups, left, nil
}

// leftOut returns a failure for each module below the workspace that is neither in it nor in a
// group of its own.
func leftOut(work *group, beside []*group) (left []string, err error) {
	has, err := work.list("-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	for _, g := range beside {
		abs, err := filepath.Abs(g.dir)
		if err != nil {
			return nil, err
		}
		has = append(has, abs)
	}
	err = filepath.WalkDir(work.dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != work.dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		dir, err := filepath.Abs(filepath.Dir(path))
		if err == nil && !slices.Contains(has, dir) {
			left = append(left, fmt.Sprintf("the module in %s is not tested: name it in go.work", filepath.Dir(path)))
		}
		return err
	})
	return left, err
}

// list returns the words that go list prints for the group.
func (g *group) list(args ...string) (lines []string, err error) {
	cmd := exec.Command("go", slices.Concat([]string{"-C", g.dir, "list"}, g.modfile, args)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), g.env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", g.dir, err)
	}
	return strings.Fields(string(out)), nil
}

// A gotestsum runs the tests of a group.
type gotestsum struct {
	program string
	format  string
	events  string // file for the output of go test -json
	out     *os.File
	run     func(*exec.Cmd) error
}

// tests runs all tests of the group and returns the result.
func (s *gotestsum) tests(g *group, flags []string) *result {
	test := slices.Concat([]string{"go", "-C", g.dir, "test", "-json"}, g.modfile, flags, []string{g.packages})
	// gotestsum has no flag for the directory, so it gets the raw command.
	own := []string{"--format=" + s.format, "--format-icons=text", "--format-hide-empty-pkg",
		"--hide-summary=skipped", "--jsonfile=" + s.events, "--raw-command", "--"}
	os.Remove(s.events) // an earlier run's events must not count
	cmd := exec.Command(s.program, append(own, test...)...)
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	ended := s.run(cmd)
	r, err := read(s.events)
	if err != nil {
		r.failures = append(r.failures, failure{name: fmt.Sprintf("tests in %s: %v", g.dir, err)})
	}
	if ended != nil && len(r.failures) == 0 {
		r.failures = append(r.failures, failure{name: fmt.Sprintf("tests in %s: no test failed, but gotestsum: %v", g.dir, ended)})
		return r
	}
	all, err := g.list("-f", "{{.ImportPath}} {{.Module.Path}}", g.packages)
	if err != nil {
		r.failures = append(r.failures, failure{name: err.Error()})
	}
	for i := 0; i+1 < len(all); i += 2 {
		r.packages, r.modules[all[i+1]] = r.packages+1, true
		if !r.ended[all[i]] && len(r.failures) == 0 {
			r.failures = append(r.failures, failure{name: all[i] + ": it was not tested"})
		}
	}
	return r
}
