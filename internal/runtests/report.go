package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// An event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// A result is the result of the tests of a group.
type result struct {
	passed   int
	skips    []skip
	failures []failure
	ended    map[string]bool // packages
	packages int             // the number of packages that exist
	modules  map[string]bool
}

// A failure is a failed test, package or something else.
type failure struct {
	name string
	says string // its output
}

func newResult() *result { return &result{ended: map[string]bool{}, modules: map[string]bool{}} }

// A skip is a test that did not run.
type skip struct {
	name   string // package.test
	reason string // its output
}

// read reads the events in a file. The result is never nil.
func read(file string) (*result, error) {
	in, err := os.Open(file)
	if err != nil {
		return newResult(), err
	}
	defer in.Close()
	return parse(in)
}

// parse reads events. A package that failed although none of its tests did counts as one
// failure: it panicked, timed out, exited or did not build. So does a package that began and
// did not end.
func parse(in io.Reader) (*result, error) {
	r := newResult()
	failed := map[string]int{}    // tests, by package
	running := map[string]bool{}  // packages
	printed := map[event]string{} // by test, until it has ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return r, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return r, fmt.Errorf("%w in %q", err, line)
		}
		test := event{Package: e.Package, Test: e.Test}
		name := e.Package + "." + e.Test
		switch {
		case e.Action == "start":
			running[e.Package] = true
		case e.Action == "output":
			printed[test] += e.Output
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		case e.Test == "":
			delete(running, e.Package)
			r.ended[e.Package] = true
			if e.Action == "fail" && failed[e.Package] == 0 {
				r.failures = append(r.failures, failure{e.Package, ofPackage(printed, e.Package)})
			}
		case e.Action == "pass":
			r.passed++
		case e.Action == "fail":
			failed[e.Package]++
			r.failures = append(r.failures, failure{name, withoutFrames(printed[test])})
		case e.Action == "skip":
			r.skips = append(r.skips, skip{name, strings.TrimSpace(withoutFrames(printed[test]))})
		}
		if e.Action != "output" {
			delete(printed, test)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(running)) {
		r.failures = append(r.failures, failure{pkg + ": it did not end", ofPackage(printed, pkg)})
	}
	return r, nil
}

// ofPackage returns the output of a package and of its tests that have not ended.
func ofPackage(printed map[event]string, pkg string) string {
	var b strings.Builder
	for _, test := range slices.SortedFunc(maps.Keys(printed), func(a, b event) int { return -cmp.Compare(a.Test, b.Test) }) {
		if test.Package == pkg {
			b.WriteString(withoutFrames(printed[test]))
		}
	}
	return b.String()
}

// The output of a failure is shown again at the end, because often only the end of a log is read. If it has more than
// mostShown lines, the middle is left out.
const mostShown, widest = 8, 300

func (f *failure) show(out io.Writer) {
	lines := strings.Split(strings.TrimRight(f.says, "\n"), "\n")
	for i, line := range lines {
		switch left := len(lines) - i; {
		case i == mostShown/2 && left > mostShown/2:
			fmt.Fprintf(out, "\t(%d lines more)\n", left-mostShown/2)
		case i < mostShown/2 || left <= mostShown/2:
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintf(out, "\t%.*s\n", widest, line)
			}
		}
	}
}

// withoutFrames drops the lines with which go test marks begin and end.
func withoutFrames(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		if s := strings.TrimLeft(line, " "); strings.HasPrefix(s, "=== ") || strings.HasPrefix(s, "--- ") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// report prints the skips and failures by name, and the counts, and returns whether all is
// well.
func report(out io.Writer, strict bool, results ...*result) bool {
	all := newResult()
	for _, r := range results {
		all.passed += r.passed
		all.skips = append(all.skips, r.skips...)
		all.failures = append(all.failures, r.failures...)
		all.packages += r.packages
		maps.Copy(all.modules, r.modules)
	}
	byReason := map[string][]skip{}
	for _, s := range all.skips {
		why := s.allowed()
		byReason[why] = append(byReason[why], s)
	}
	unlisted := byReason[""]
	delete(byReason, "")
	fmt.Fprintln(out)
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(out, "skipped, %s:\n", why)
		for _, s := range byReason[why] {
			fmt.Fprintf(out, "\t%s\n", s.name)
		}
	}
	if len(unlisted) > 0 {
		fmt.Fprintln(out, "skipped, for a reason that is not on the list in internal/runtests/skips.go:")
		for _, s := range unlisted {
			fmt.Fprintf(out, "\t%s\n\t\t%s\n", s.name, s.reason)
		}
	}
	if all.passed == 0 {
		all.failures = append(all.failures, failure{name: "no test passed"})
	}
	failed := len(all.failures)
	if strict {
		failed += len(unlisted)
	}
	for _, f := range all.failures {
		fmt.Fprintln(out, "failed:", f.name)
		if why := knownToFlake(f.name); why != "" {
			fmt.Fprintln(out, "\tknown to flake:", why)
		}
		f.show(out)
	}
	for _, line := range testserver.Report() {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out, "stores tested without a real server:", cmp.Or(strings.Join(withoutServer(), ", "), "none"))
	fmt.Fprintf(out, "%d packages of %d modules\n", all.packages, len(all.modules))
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", all.passed, failed, len(all.skips))
	return failed == 0
}
