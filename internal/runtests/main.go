// Command runtests has gotestsum run the tests of all modules, once each, and then
// says what gotestsum cannot: whether a test was skipped that had to run, and
// whether a package or a module was left out.
//
//	go run ./internal/runtests [-strict] [-freeze PAUSE] [-packages PATTERN] [-m DIR[=MODFILE]]... -- [go test flags]
//
// The modules of the workspace are tested together, each -m by itself, and with another go.mod where one is named.
// -packages tests these alone of the workspace. With -strict a skip that
// is not on the list in skips.go is a failure: a test
// that did not run for want of a server has proved nothing. Whatever failed
// makes the exit status 1, and nothing is run again.
//
// With -freeze all processes of the tests, servers as well, stand still for 8 to 14 seconds now and then, as on a
// machine that does: a test that fails only then needs luck. It takes Linux, and cgroups of version 2 that we may make.
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
	dir := flag.String("json", ".tests", "`DIR` in which each event is kept, in a file for the workspace and for each module")
	root := flag.String("root", ".", "`DIR` of the workspace, if there is one: of each module below it the tests must be run; empty: test no workspace")
	packages := flag.String("packages", workspace, "`PATTERN` of the packages of the workspace to test")
	freeze := flag.Duration("freeze", 0, "have all processes of the tests stand still now and then, with such a pause between on average")
	tools := flag.String("tools", "internal/tools", "`DIR` of the module that has gotestsum")
	var apart []string
	flag.Func("m", "`DIR` of a module beside the workspace whose tests to run; DIR=MODFILE: with that file as its go.mod; may be repeated", func(dir string) error {
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

// findGotestsum returns the program as the module has it. The go command builds it, and keeps it in its cache.
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

// A group is what one run of go test tests.
type group struct {
	dir      string
	packages string   // the pattern
	env      []string // besides our own
	modfile  []string // the flag that names another go.mod, if any
}

// file names the file with the events of the group.
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

// ofWorkspace has go use the workspace above the directory, whatever our own environment says.
const ofWorkspace = "GOWORK="

// groupsOf are packages of the workspace, if there is one, and the modules apart; and, if all of it is to be tested, the
// modules below it that are in no group, each as a failure.
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

// leftOut are the modules below the workspace which are neither of it nor beside it.
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

// list is what go list prints of the group, by line.
func (g *group) list(args ...string) (lines []string, err error) {
	cmd := exec.Command("go", slices.Concat([]string{"-C", g.dir, "list"}, g.modfile, args)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), g.env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", g.dir, err)
	}
	return strings.Fields(string(out)), nil
}

// A gotestsum is how the tests of a group are run.
type gotestsum struct {
	program string
	format  string
	events  string // file for what go test -json prints
	out     *os.File
	run     func(*exec.Cmd) error
}

// tests runs all tests of the group, and reads what came of them.
func (s *gotestsum) tests(g *group, flags []string) *result {
	test := slices.Concat([]string{"go", "-C", g.dir, "test", "-json"}, g.modfile, flags, []string{g.packages})
	// Raw, as it has no flag for the directory.
	own := []string{"--format=" + s.format, "--format-icons=text", "--format-hide-empty-pkg",
		"--hide-summary=skipped", "--jsonfile=" + s.events, "--raw-command", "--"}
	os.Remove(s.events) // what an earlier run left is no result of this one
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
