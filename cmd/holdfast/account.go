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
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

// reports checks --metrics-file and --trace, and reports whether one of them is given.
func (j *job) reports(metrics string, trace bool) (asked bool, err error) {
	switch {
	case metrics == "" && !trace: //mutant:report-off
		return false, nil
	case metrics != "" && !strings.HasSuffix(metrics, ".prom"):
		return false, fmt.Errorf("--metrics-file %s: must end in .prom, or the textfile collector does not read it", metrics)
	case trace && tracePath() == "":
		return false, errors.New("--trace needs the program " + report.TraceProgram + ", beside this one or in the PATH")
	}
	return true, nil
}

// keepAccount starts the account of the run.
func (j *job) keepAccount(metrics string, trace bool) {
	l := newJournal(j)
	a := &account{Version: version(), Names: j.names, Mode: l.mode, Weight: l.weight, Limit: l.limit, Program: filepath.Base(j.argv[0]), PID: frontPID(), Began: begun}
	if metrics != "" {
		a.Metrics = absolute(metrics)
	}
	if trace { //mutant:report-span-asked
		a.Span = report.NewSpan(os.Getenv)
	}
	j.account = a
}

func absolute(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// An account records a run for the metrics and the span; nil if neither was requested.
type account report.Account

// holds records that the lock was obtained.
func (a *account) holds(leases *holdfast.LeaseSet) {
	if a == nil {
		return
	}
	a.Held = time.Now()
	for _, l := range held(leases) {
		a.IDs, a.Tokens = append(a.IDs, l.ID), append(a.Tokens, l.Token)
	}
}

// ends records how the run has ended. Only the first call counts: later outcomes follow from it.
func (a *account) ends(outcome string) {
	if a != nil {
		a.Outcome = cmp.Or(a.Outcome, outcome)
	}
}

// environment returns env with our span as the parent of the command's own.
func (a *account) environment(env []string) []string {
	if a == nil || a.Span == nil {
		return env
	}
	return setenv(env, "TRACEPARENT", a.Span.Traceparent()) //mutant:report-child-of-span
}

// outcomeOf returns the outcome of a command that was run.
func (s *supervisor) outcomeOf(code int) string {
	switch {
	case s.code == exitLost:
		return report.Lost
	case s.code == exitTimeout:
		return report.Timeout
	case code == 0:
		return report.Succeeded
	}
	return report.Failed
}
