package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail, instead of Package
	Test       string
	Output     string
	Elapsed    float64

	dir string // of the module
}

// A report counts test results and prints what a reader wants to know of them
// as they come in.
type report struct {
	out     io.Writer
	verbose bool

	mu              sync.Mutex // modules are tested beside each other
	passed          int
	skips           []skip
	failures        []failure // to be named at the end
	unsteady        []string  // failed, and then did not
	took, tookTests []took    // of packages, and of their tests

	output map[[2]string]*strings.Builder // of package and test, until it has ended
	ended  map[string]*tally              // of packages that have not ended
}

// A tally counts the tests of one package.
type tally struct{ tests, failed int }

// took is how long something took, in seconds.
type took struct {
	name    string
	seconds float64
}

// A skip is a test that did not run.
type skip struct {
	name   string // package.test
	reason string // what it printed
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{out: out, verbose: verbose, output: map[[2]string]*strings.Builder{}, ended: map[string]*tally{}}
}

// read takes the output of one go test -json, of the module in dir, and returns
// how many packages ended and how many failures there were. Lines that are not
// JSON are printed as they are.
func (r *report) read(in io.Reader, dir string) (packages, failures int, err error) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			p, f := r.line(line, dir)
			packages, failures = packages+p, failures+f
		}
		if err == io.EOF {
			return packages, failures, nil
		}
		if err != nil {
			return packages, failures, err
		}
	}
}

func (r *report) line(line, dir string) (packages, failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(r.out, line)
		return 0, 0
	}
	e.dir = dir
	p, f := len(r.took), len(r.failures)
	r.add(e)
	return len(r.took) - p, len(r.failures) - f
}

func (r *report) add(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.buffer(e.Package, e.Test).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
	}
}

func (r *report) buffer(pkg, test string) *strings.Builder {
	key := [2]string{pkg, test}
	if r.output[key] == nil {
		r.output[key] = new(strings.Builder)
	}
	return r.output[key]
}

// take returns what the test printed and forgets it.
func (r *report) take(pkg, test string) string {
	s := r.buffer(pkg, test).String()
	delete(r.output, [2]string{pkg, test})
	return s
}

func (r *report) endTest(e event) {
	t := r.tally(e.Package)
	t.tests++
	printed := r.take(e.Package, e.Test)
	if !strings.Contains(e.Test, "/") {
		r.tookTests = append(r.tookTests, took{e.Package + "." + e.Test, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		r.passed++
		if logged := withoutFrames(printed); r.verbose && logged != "" {
			fmt.Fprintf(r.out, "--- %s.%s\n%s", e.Package, e.Test, cut(logged))
		}
	case "fail":
		t.failed++
		r.failures = append(r.failures, failure{e.dir, e.Package, e.Test, printed, e.Package + "." + e.Test})
		fmt.Fprintf(r.out, "--- FAIL: %s.%s (%.2fs)\n%s", e.Package, e.Test, e.Elapsed, withoutFrames(printed))
	case "skip":
		r.skips = append(r.skips, skip{e.Package + "." + e.Test, strings.TrimSpace(withoutFrames(printed))})
	}
}

// endPackage prints the package's line. A package that failed though none of
// its tests did (it panicked, ran out of time, leaked or did not build) counts
// as one failure. What its unfinished tests printed is shown.
func (r *report) endPackage(e event) {
	r.took = append(r.took, took{e.Package, e.Elapsed})
	t := r.tally(e.Package)
	delete(r.ended, e.Package)
	own := r.take(e.Package, "")
	switch {
	case e.Action == "fail":
		if t.failed == 0 {
			r.failures = append(r.failures, failure{what: e.Package})
		}
		for _, test := range r.unfinished(e.Package) {
			fmt.Fprint(r.out, r.take(e.Package, test))
		}
		fmt.Fprintf(r.out, "%sFAIL\t%s\t%.2fs\n", own, e.Package, e.Elapsed)
	case t.tests == 0:
		fmt.Fprintf(r.out, "-\t%s\tno tests\n", e.Package)
	default:
		fmt.Fprintf(r.out, "ok\t%s\t%.2fs\t%d tests\n", e.Package, e.Elapsed, t.tests)
	}
}

func (r *report) tally(pkg string) *tally {
	if r.ended[pkg] == nil {
		r.ended[pkg] = new(tally)
	}
	return r.ended[pkg]
}

// unfinished returns the tests of the package that printed and did not end.
func (r *report) unfinished(pkg string) (tests []string) {
	for key := range r.output {
		if key[0] == pkg {
			tests = append(tests, key[1])
		}
	}
	slices.Sort(tests)
	return tests
}

// broken counts a failure that no test reported.
func (r *report) broken(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, failure{what: what})
	fmt.Fprintln(r.out, "FAIL:", what)
}

// finish prints the skips and the failures, each by name, and the counts, and
// says whether all is well.
func (r *report) finish(strict bool) bool {
	byReason := map[string][]skip{}
	for _, s := range r.skips {
		why := s.allowed()
		byReason[why] = append(byReason[why], s)
	}
	unlisted := byReason[""]
	delete(byReason, "")
	fmt.Fprintln(r.out)
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(r.out, "skipped, %s:\n", why)
		for _, s := range byReason[why] {
			fmt.Fprintf(r.out, "\t%s\n", s.name)
		}
	}
	if len(unlisted) > 0 {
		fmt.Fprintln(r.out, "skipped, for a reason that is not on the list in internal/runtests/skips.go:")
		for _, s := range unlisted {
			fmt.Fprintf(r.out, "\t%s\n\t\t%s\n", s.name, s.reason)
		}
	}
	if r.passed == 0 {
		r.broken("no test passed")
	}
	failed := len(r.failures)
	if strict {
		failed += len(unlisted)
	}
	if r.verbose {
		r.slowest("packages", r.took)
		r.slowest("tests", r.tookTests)
	}
	for _, name := range r.unsteady {
		fmt.Fprintf(r.out, "unsteady, a defect of the test or worse: %s failed, and then passed %d times alone\n", name, times)
	}
	for _, f := range r.failures {
		fmt.Fprintln(r.out, "failed:", f.what)
	}
	fmt.Fprintln(r.out, "stores tested without a real server:", cmp.Or(strings.Join(withoutServer(), ", "), "none"))
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, failed, len(r.skips))
	return failed == 0
}

// mostSlow is how many of the slowest are named.
const mostSlow = 12

// slowest prints what took longest, and the time of all. Packages, and tests of
// one package, may have run beside each other.
func (r *report) slowest(what string, all []took) {
	sum := 0.0
	for _, t := range all {
		sum += t.seconds
	}
	slices.SortStableFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.out, "slowest of %d %s, which took %.0fs one after another:\n", len(all), what, sum)
	for _, t := range all[:min(mostSlow, len(all))] {
		fmt.Fprintf(r.out, "\t%7.2fs %s\n", t.seconds, t.name)
	}
}

// longestLog is how many lines are shown of what a passed test logged.
const longestLog = 20

// cut leaves the first lines of a long log.
func cut(log string) string {
	lines := slices.Collect(strings.Lines(log))
	if len(lines) <= longestLog {
		return log
	}
	return fmt.Sprintf("%s    … %d lines more\n", strings.Join(lines[:longestLog], ""), len(lines)-longestLog)
}

// withoutFrames drops the lines by which go test marks begin and end.
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
