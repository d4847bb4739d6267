package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
)

// The exit codes, besides the command's own and 128+N where a signal ended it.
// docs/operate.md tells operators what to do about each.
const (
	exitUsage       = 64                 // a mistake of the caller
	exitUnavailable = 69                 // the store did not answer, or what happened is indeterminate
	exitInternal    = front.ExitInternal // 70: a mistake of ours, or stored state that is unusable
	exitHeld        = 75                 // not obtained: somebody else has it
	exitLost        = front.ExitLost     // 76: lost while the command ran
	exitDenied      = 77                 // the store refuses this user
	exitTimeout     = 124                // the command ran past --at-most-for
	exitCannotRun   = 126                // the command was found but cannot be run
	exitNotFound    = 127                // there is no such command
)

// codes has the exit code of every error of package holdfast. The first that
// matches counts.
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
	{context.DeadlineExceeded, exitUnavailable}, // -w was over before the store had answered at all
}

// codeOf is the exit code for an error.
func codeOf(err error) int {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return exitInternal
}

// An exitError ends the program with a code. err, if there is one, goes to
// stderr. Commands return nothing else, so that all other errors are known to
// be the flag parser's.
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

// exit makes err, unless it is nil or has a code already, one with the code of
// the table.
func exit(err error) error {
	if coded := (*exitError)(nil); err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{codeOf(err), err}
}
