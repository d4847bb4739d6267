// Command runtests runs the tests of one or more modules and tells how they
// came out: a line for each package, what the failed tests printed, every
// skipped test by name, and the counts.
//
//	go run ./internal/runtests [-strict] [-v] [-m DIR]... -- [go test flags]
//
// With -strict a skip that is not on the list in skips.go is a failure: a test
// that did not run for want of a server has proved nothing.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

func main() {
	strict := flag.Bool("strict", false, "a skip that is not on the list is a failure")
	verbose := flag.Bool("v", false, "print what the passed tests logged, too")
	var modules []string
	flag.Func("m", "`DIR` of a module whose tests to run; may be repeated; default the current one", func(dir string) error {
		modules = append(modules, dir)
		return nil
	})
	flag.Parse()
	if modules == nil {
		modules = []string{"."}
	}

	r := newReport(os.Stdout, *verbose)
	for _, dir := range modules {
		if err := run(r, dir, flag.Args()); err != nil {
			r.broken(fmt.Sprintf("go test in %s: %v", dir, err))
		}
	}
	if !r.finish(*strict) {
		os.Exit(1)
	}
}

// run runs all tests of the module in dir and adds them to the report. Its
// error says that go test did not end well though no test said so.
func run(r *report, dir string, flags []string) error {
	cmd := exec.Command("go", slices.Concat([]string{"-C", dir, "test", "-json"}, flags, []string{"./..."})...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, seen := r.failed, r.packages
	readErr := r.read(out)
	if err := cmd.Wait(); err != nil && r.failed == failed {
		return err
	}
	if readErr != nil {
		return readErr
	}
	if r.packages == seen {
		return fmt.Errorf("no package was tested")
	}
	return nil
}
