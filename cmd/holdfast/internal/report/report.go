// Package report defines the account of a finished run, which goes to the programs that make
// metrics and a span of it.
package report

import "time"

// TraceProgram is the name of the program that sends spans.
const TraceProgram = "holdfast-trace"

// SendsFor is how long that program tries, and WaitsFor how long the run waits for metrics and
// span, both from the run's end. A program that starts late on a busy machine still has time to
// report an error.
const (
	SendsFor = 4 * time.Second
	WaitsFor = 5 * time.Second
)

// All outcomes of a run. docs/stability.md promises them.
const (
	Succeeded   = "succeeded"   // the command's exit code is 0
	Failed      = "failed"      // the command's exit code is another
	Timeout     = "timeout"     // the command ran past --at-most-for
	Lost        = "lost"        // the lock was lost while it ran
	Refused     = "refused"     // another held the lock
	Skipped     = "skipped"     // the same, under --skip-ok
	Interrupted = "interrupted" // a signal ended the wait for the lock
	NotRun      = "not-run"     // the command could not be run
	Error       = "error"       // anything else, usually of the store
)

// Outcomes are all of them, in the order of the metrics. An array costs nothing at the start of a
// program.
var Outcomes = [...]string{Succeeded, Failed, Timeout, Lost, Refused, Skipped, Interrupted, NotRun, Error}

// An Account is a run that has ended.
type Account struct {
	Version string // of the program
	Metrics string `json:",omitempty"` // the file for metrics; empty: none
	Span    *Span  `json:",omitempty"` // nil: no span

	Names         []string
	Store, Mode   string
	Weight, Limit int64
	IDs           []string // of the holds
	Tokens        []int64
	Program       string // the command's name, without arguments: these may be secret
	PID           int    // of the process that others see

	Began, Held, Ended time.Time // Held: when the lock was obtained; zero: it was not
	Outcome            string
	Code               int
}
