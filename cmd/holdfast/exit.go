package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
)

// The exit codes, in addition to the command's own and to 128+N if a signal ended it.
// docs/operate.md tells operators what to do about each.
const (
	exitUsage       = 64                 // wrong usage
	exitUnavailable = 69                 // the store did not answer, or the outcome is unknown
	exitInternal    = front.ExitInternal // 70: a bug of ours, or damaged state in the store
	exitHeld        = 75                 // not obtained: another holds it
	exitLost        = front.ExitLost     // 76: lost while the command ran
	exitDenied      = 77                 // the store refuses this user
	exitTimeout     = 124                // the command ran past --at-most-for
	exitCannotRun   = 126                // the command was found but cannot be run
	exitNotFound    = 127                // there is no such command
)

// codes maps every error of package holdfast to its exit code. The first match counts.
var codes = []struct {
	err  error
	code int
}{
	{holdfast.ErrHeld, exitHeld},
	{holdfast.ErrLost, exitLost},
	{holdfast.ErrInvalid, exitUsage},
	{holdfast.ErrMismatch, exitUsage},
	{holdfast.ErrUnsupported, exitUsage},
	{holdfast.ErrDeadlock, exitUsage},
	{holdfast.ErrDenied, exitDenied},
	{holdfast.ErrCorrupt, exitInternal},
	{holdfast.ErrUnavailable, exitUnavailable},
	{holdfast.ErrReleased, exitInternal},
	{holdfast.ErrClosed, exitInternal},
	{holdfast.ErrNotRun, exitInternal},          // it never comes alone, and no command calls Do
	{context.DeadlineExceeded, exitUnavailable}, // -w expired before the store had answered at all
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return exitInternal
}

// An exitError ends the program with a code, and prints err, if there is one, on stderr. Commands
// return no other errors, so all others come from the flag parser.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit wraps err with its code from the table, unless it is nil or has a code already.
func exit(err error) error {
	if coded := (*exitError)(nil); err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{codeOf(err), err}
}
