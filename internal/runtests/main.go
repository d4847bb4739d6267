// Command runtests runs the tests of one or more modules, beside each other, and
// tells how they came out: a line for each package, what the failed tests
// printed, every skipped test by name, and the counts.
//
//	go run ./internal/runtests [-strict] [-v] [-m DIR]... -- [go test flags]
//
// With -strict a skip that is not on the list in skips.go is a failure: a test
// that did not run for want of a server has proved nothing.
//
// A few tests that failed on real time are run again, alone; see again.go for
// which may be, and which never.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
	var running sync.WaitGroup
	for _, dir := range modules {
		running.Go(func() {
			if err := run(r, dir, flag.Args()); err != nil {
				r.broken(fmt.Sprintf("go test in %s: %v", dir, err))
			}
		})
	}
	running.Wait()
	r.runAgain(flag.Args())
	if !r.finish(*strict) {
		os.Exit(1)
	}
}

// run runs all tests of the module in dir and adds them to the report. Its
// error says that go test did not end well though no test said so.
func run(r *report, dir string, flags []string) error {
	packages, err := list(dir)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", slices.Concat([]string{"-C", dir, "test", "-json"}, flags, packages)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tested, failures, readErr := r.read(out, dir)
	if err := cmd.Wait(); err != nil && failures == 0 {
		return err
	}
	if readErr != nil {
		return readErr
	}
	if tested != len(packages) {
		return fmt.Errorf("of %d packages %d ended", len(packages), tested)
	}
	return nil
}

// longest are the packages whose tests take longest. They start first, or the
// processors have nothing to do while the last one ends.
var longest = []string{"/cmd/holdfast", "/internal/prove", "/pgstore", "/redisstore", "/redlockstore", "/mongostore", "/zkstore", "/store/storetest", "/etcdstore"}

// list returns the packages of the module in dir, the longest first.
func list(dir string) ([]string, error) {
	cmd := exec.Command("go", "-C", dir, "list", "-mod=mod", "-e", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	packages := strings.Fields(string(out))
	if len(packages) == 0 {
		return nil, fmt.Errorf("no package to test")
	}
	rank := func(pkg string) int {
		i := slices.IndexFunc(longest, func(end string) bool { return strings.HasSuffix(pkg, end) })
		if i < 0 {
			return len(longest)
		}
		return i
	}
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return packages, nil
}
