package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	// times is how often a test that failed has to pass, alone, to be called
	// unsteady instead of failed.
	times = 3
	// mostAgain is how many tests are run again at most: where more fail, the
	// tree is wrong and not the hour.
	mostAgain = 4
)

// onRealTime matches the packages whose tests wait for servers and processes by
// the clock of the machine, which may be busy with something else for seconds.
// In all others time is the test's own, or what failed is a judgement on what
// was seen (internal/prove): nothing there is run again.
var onRealTime = regexp.MustCompile(`/(cmd/holdfast|bench|(file|redis|redlock|pg|mysql|mongo|etcd|zk|nats)store|redisguard)$`)

// safety matches the names of tests that say what may never happen, and of
// those that search for it by chance. What they saw once is true.
var safety = regexp.MustCompile(`(?i)never|two|both|twice|at_once|exclu|token|fenc|differential|crowd`)

// mutants matches the tests of the tests. One that misses a mutant tells nothing
// of the store: it searched for too short a time, and is to show that it finds it.
var mutants = regexp.MustCompile(`^TestTheTestsCatchEachMutant`)

// A failure is a test that failed, or whatever else did.
type failure struct {
	dir     string // of its module
	pkg     string
	test    string // "" if it is no test
	printed string
	what    string // by which it is named
}

// top is the test that go test -run runs for it, with its package.
func (f failure) top() failure {
	test, _, _ := strings.Cut(f.test, "/")
	return failure{dir: f.dir, pkg: f.pkg, test: test, what: f.pkg + "." + test}
}

// mayBeChance says whether a busy machine may be the reason.
func (f failure) mayBeChance() bool {
	return f.test != "" && onRealTime.MatchString(f.pkg) && (mutants.MatchString(f.test) || !safety.MatchString(f.test)) &&
		!strings.Contains(f.printed, "DATA RACE") && !strings.Contains(f.printed, "race detected") && !strings.HasPrefix(f.printed, "panic: ") && !strings.Contains(f.printed, "\npanic: ")
}

// toRunAgain returns the tests whose failures may all be chance. There are none
// if there are too many of them.
func (r *report) toRunAgain() []failure {
	sure, tests := map[failure]bool{}, map[failure]bool{}
	for _, f := range r.failures {
		if f.mayBeChance() {
			tests[f.top()] = true
		} else {
			sure[f.top()] = true
		}
	}
	maps.DeleteFunc(tests, func(f failure, _ bool) bool { return sure[f] })
	if len(tests) > mostAgain {
		return nil
	}
	return slices.SortedFunc(maps.Keys(tests), func(a, b failure) int { return strings.Compare(a.what, b.what) })
}

// runAgain runs the tests again, alone, and takes those that pass each time
// from the failures to the unsteady.
func (r *report) runAgain(flags []string) {
	for _, test := range r.toRunAgain() {
		fmt.Fprintf(r.out, "again, alone, %d times: %s\n", times, test.what)
		args := slices.Concat([]string{"-C", test.dir, "test"}, flags, []string{"-run", "^" + test.test + "$", fmt.Sprint("-count=", times), test.pkg})
		cmd := exec.Command("go", args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			fmt.Fprintf(r.out, "%s%s: %v\n", out, test.what, err)
			continue
		}
		r.unsteady = append(r.unsteady, test.what)
		r.failures = slices.DeleteFunc(r.failures, func(f failure) bool { return f.top() == test })
	}
}
