package mutant

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Run is what became of one test in a process of its own.
type Run struct {
	Passed, Failed, Skipped []string // tests and subtests that ended, by their full names

	Met      bool // a function was called that the mutant changes, unless that has a build of its own
	TimedOut bool
	NoServer string // what package testserver said of one that did not start
	Err      error  // how the process ended
	Took     time.Duration
	Output   []byte

	began    []string
	panicked string // the trace of the goroutine that did, if no test was blamed for it
}

// None is the number of no mutant.
const None = -1

// Run runs a test of the binary, told with its subtest as in Broken, with the
// mutant alive; "" is all tests. It fails t if that needs a binary of its own
// that cannot be built. The flags are added to those of the binary, and env to
// the environment.
func (s *Set) Run(t testing.TB, i int, test string, within time.Duration, flags []string, env ...string) *Run {
	t.Helper()
	// testing marks its own lines by a character then, so that none that a test
	// prints is taken for one of them.
	args := append([]string{"-test.v=test2json", "-test.timeout=" + within.String()}, flags...)
	if test != "" {
		args = append(args, "-test.run="+exactly(test))
	}
	cmd := s.Command(t, i, args...)
	met := filepath.Join(t.TempDir(), "met")
	cmd.Env = append(append(cmd.Env, env...), metEnv+"="+met)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	run := parseRun(out, err, time.Since(begin))
	_, not := os.Stat(met)
	run.Met = not == nil
	return run
}

// exactly is the pattern of go test -run for a test, or a subtest, and no other
// whose name begins with its name.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// mark begins each line of package testing, under -test.v=test2json.
const mark = "\x16"

// unmarked takes away mark, and what is around an error since Go 1.27.
var unmarked = strings.NewReplacer(mark, "", "\x0e", "", "\x0f", "")

var (
	// noServer is what package testserver says of a server that is not there,
	// or does not start: of a mutant it says nothing.
	noServer = regexp.MustCompile(`.*(run "make servers"|ended at its start: | did not answer on .* within ).*`)
	timedOut = regexp.MustCompile(`(?m)^panic: test timed out after `)
	panics   = regexp.MustCompile(`(?m)^(panic|fatal error): `)
)

func parseRun(out []byte, err error, took time.Duration) *Run {
	r := &Run{Err: err, Took: took, Output: []byte(unmarked.Replace(string(out)))}
	for line := range strings.Lines(string(out)) {
		_, line, ours := strings.Cut(line, mark)
		if !ours {
			continue
		}
		f := strings.Fields(line)
		switch {
		case len(f) >= 3 && f[0] == "===" && f[1] == "RUN":
			r.began = append(r.began, f[2])
		case len(f) < 3 || f[0] != "---":
		case f[1] == "PASS:":
			r.Passed = append(r.Passed, f[2])
		case f[1] == "FAIL:":
			r.Failed = append(r.Failed, f[2])
		case f[1] == "SKIP:":
			r.Skipped = append(r.Skipped, f[2])
		}
	}
	r.TimedOut = timedOut.Match(r.Output)
	r.NoServer = strings.TrimSpace(string(noServer.Find(r.Output)))
	if at := panics.FindIndex(r.Output); at != nil && err != nil {
		if _, trace, ok := strings.Cut(string(r.Output[at[0]:]), "\ngoroutine "); ok {
			r.panicked, _, _ = strings.Cut(trace, "\n\n")
		}
	}
	return r
}

// Began reports whether the test, or the subtest, was begun.
func (r *Run) Began(test string) bool { return slices.Contains(r.began, test) }

// Unfinished reports whether the test was begun and has not ended.
func (r *Run) Unfinished(test string) bool {
	return r.Began(test) && !slices.Contains(slices.Concat(r.Passed, r.Failed, r.Skipped), test)
}

// End says how the process ended, for people.
func (r *Run) End() string {
	if r.Err == nil && len(r.began) == 0 {
		return "there is no such test"
	}
	if r.Err == nil {
		return "the process ended well"
	}
	return fmt.Sprintf("the process ended with %v", r.Err)
}

// panickedIn reports whether the goroutine that panicked ran code of one of the
// packages, or was started by one.
func (r *Run) panickedIn(packages []string) bool {
	for line := range strings.Lines(r.panicked) {
		line = strings.TrimPrefix(line, "created by ")
		for _, pkg := range packages {
			if rest, ok := strings.CutPrefix(line, pkg); ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "_test.")) {
				return true
			}
		}
	}
	return false
}
