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

// A Run is the result of one test in its own process.
type Run struct {
	Passed, Failed, Skipped []string // tests and subtests that ended, by full name

	Met      bool // a function that the mutant changes was called; not known for a mutant with its own build
	TimedOut bool
	NoServer string // the message of package testserver about a server that did not start
	Err      error  // how the process ended
	Took     time.Duration
	Output   []byte

	began    []string
	panicked string // the trace of the goroutine that panicked, if no test was blamed
}

// None is the number for running without a mutant.
const None = -1

// Run runs a test of the binary with mutant i alive. The test is named with its subtest, as in
// Broken; "" is all tests. Run fails t if the mutant needs its own binary and that cannot be
// built. flags are added to those of the binary, and env to the environment.
func (s *Set) Run(t testing.TB, i int, test string, within time.Duration, flags []string, env ...string) *Run {
	t.Helper()
	// With test2json, package testing begins its own lines with a special character, so that no
	// line that a test prints is mistaken for one.
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

// exactly returns the go test -run pattern for this test or subtest only, and not for others
// whose names begin with its name.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// mark begins each line of package testing under -test.v=test2json.
const mark = "\x16"

// unmarked removes mark, and the characters around an error since Go 1.27.
var unmarked = strings.NewReplacer(mark, "", "\x0e", "", "\x0f", "")

var (
	// noServer is what package testserver says if a server does not exist or does not start.
	// Such a run says nothing about the mutant.
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

// Began reports whether the test or subtest was started.
func (r *Run) Began(test string) bool { return slices.Contains(r.began, test) }

// Unfinished reports whether the test was started and has not ended.
func (r *Run) Unfinished(test string) bool {
	return r.Began(test) && !slices.Contains(slices.Concat(r.Passed, r.Failed, r.Skipped), test)
}

// End describes how the process ended.
func (r *Run) End() string {
	if r.Err == nil && len(r.began) == 0 {
		return "there is no such test"
	}
	if r.Err == nil {
		return "the process ended well"
	}
	return fmt.Sprintf("the process ended with %v", r.Err)
}

// panickedIn reports whether the goroutine that panicked ran code of one of the packages, or
// was started by such code.
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
