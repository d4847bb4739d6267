// Command runtests has gotestsum run the tests of one or more modules, one after
// the other, once each, and then says what gotestsum cannot: whether a test was
// skipped that had to run.
//
//	go run ./internal/runtests [-strict] [-m DIR]... -- [go test flags]
//
// With -strict a skip that is not on the list in skips.go is a failure: a test
// that did not run for want of a server has proved nothing. Whatever failed
// makes the exit status 1, and nothing is run again.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

func main() {
	strict := flag.Bool("strict", false, "a skip that is not on the list is a failure")
	format := flag.String("format", "pkgname", "the `FORMAT` in which gotestsum prints")
	dir := flag.String("json", ".tests", "`DIR` in which each event is kept, in a file for each module")
	tools := flag.String("tools", "internal/tools/go.mod", "the go.mod `FILE` that has gotestsum")
	var modules []string
	flag.Func("m", "`DIR` of a module whose tests to run; may be repeated; default the current one", func(dir string) error {
		modules = append(modules, dir)
		return nil
	})
	flag.Parse()
	if modules == nil {
		modules = []string{"."}
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}

	results := make([]*result, len(modules))
	for i, module := range modules {
		run := gotestsum{tools: *tools, format: *format, events: filepath.Join(*dir, fileOf(module)), out: os.Stdout}
		results[i] = run.tests(module, flag.Args())
	}
	if !report(os.Stdout, *strict, results...) {
		os.Exit(1)
	}
}

// fileOf names the file with the events of the module in dir.
func fileOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir) + ".json"
}

// A gotestsum is how the tests of a module are run.
type gotestsum struct {
	tools  string // go.mod that has it
	format string
	events string // file for what go test -json prints
	out    *os.File
}

// tests runs all tests of the module in dir, and reads what came of them.
func (g *gotestsum) tests(dir string, flags []string) *result {
	test := slices.Concat([]string{"go", "-C", dir, "test", "-json"}, flags, []string{"./..."})
	// Raw, as it has no flag for the directory.
	own := []string{"tool", "-modfile=" + g.tools, "gotestsum", "--format=" + g.format, "--format-icons=text", "--format-hide-empty-pkg",
		"--hide-summary=skipped", "--jsonfile=" + g.events, "--raw-command", "--"}
	os.Remove(g.events) // what an earlier run left is no result of this one
	cmd := exec.Command("go", append(own, test...)...)
	cmd.Stdout, cmd.Stderr = g.out, g.out
	ended := cmd.Run()
	r, err := read(g.events)
	if err != nil {
		r.failures = append(r.failures, fmt.Sprintf("tests in %s: %v", dir, err))
	}
	if ended != nil && len(r.failures) == 0 {
		r.failures = append(r.failures, fmt.Sprintf("tests in %s: no test failed, but gotestsum: %v", dir, ended))
	}
	return r
}
