package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// How a run has ended, as its metrics and its span name it: all there are.
// docs/stability.md promises them.
const (
	outcomeSucceeded   = "succeeded"   // the command's exit code is 0
	outcomeFailed      = "failed"      // it is another
	outcomeTimeout     = "timeout"     // the command ran past --at-most-for
	outcomeLost        = "lost"        // the lock was lost while it ran
	outcomeRefused     = "refused"     // another held the lock
	outcomeSkipped     = "skipped"     // the same, under --skip-ok
	outcomeInterrupted = "interrupted" // a signal ended the waiting for the lock
	outcomeNotRun      = "not-run"     // the command could not be run
	outcomeError       = "error"       // anything else, of the store most often
)

var outcomes = []string{outcomeSucceeded, outcomeFailed, outcomeTimeout, outcomeLost, outcomeRefused, outcomeSkipped, outcomeInterrupted, outcomeNotRun, outcomeError}

// An account is what the whole program, started when the job has ended, needs to make
// metrics and a span of it. The run itself only notes it.
type account struct {
	Metrics string `json:",omitempty"` // the file for them
	Span    *span  `json:",omitempty"`

	Names         []string
	Store, Mode   string
	Weight, Limit int64
	Leases        []lease
	Program       string // the command's own name, without arguments: these may be secret
	PID           int    // of the process that others see

	Began, Held, Ended time.Time // Held: the lock was obtained; zero: it was not
	Outcome            string
	Code               int
}

// reports checks the flags that ask for metrics or a span.
func (j *job) reports(metrics string, trace bool) (asked bool, err error) {
	switch {
	case metrics == "" && !trace: //mutant:report-off
		return false, nil
	case metrics != "" && !strings.HasSuffix(metrics, ".prom"):
		return false, fmt.Errorf("--metrics-file %s: must end in .prom, or the textfile collector does not read it", metrics)
	case reporter() == "":
		return false, errors.New("--metrics-file and --trace need the whole program: this one was built with the tag holdfast_lean")
	}
	return true, nil
}

// keepAccount begins the account of the run.
func (j *job) keepAccount(metrics string, trace bool) {
	l := newJournal(j)
	a := &account{Names: j.names, Mode: l.mode, Weight: l.weight, Limit: l.limit, Program: filepath.Base(j.argv[0]), PID: frontPID(), Began: begun}
	if metrics != "" {
		a.Metrics = absolute(metrics)
	}
	if trace { //mutant:report-span-asked
		a.Span = newSpan(os.Getenv)
	}
	j.account = a
}

func absolute(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// holds notes that the lock was obtained.
func (a *account) holds(leases *holdfast.LeaseSet) {
	if a != nil {
		a.Held, a.Leases = time.Now(), held(leases)
	}
}

// ends notes how the run has ended. Only the first counts: what comes after it follows from it.
func (a *account) ends(outcome string) {
	if a != nil {
		a.Outcome = cmp.Or(a.Outcome, outcome)
	}
}

// environment is that of the command, with our span as the parent of its own.
func (a *account) environment(env []string) []string {
	if a == nil || a.Span == nil {
		return env
	}
	return setenv(env, "TRACEPARENT", a.Span.traceparent()) //mutant:report-child-of-span
}

// outcomeOf is that of a command that was run.
func (s *supervisor) outcomeOf(code int) string {
	switch {
	case s.code == exitLost:
		return outcomeLost
	case s.code == exitTimeout:
		return outcomeTimeout
	case code == 0:
		return outcomeSucceeded
	}
	return outcomeFailed
}
