package store

import (
	"context"
	"fmt"
	"time"
)

// A Checker is a store that can find out more about its server than Describe,
// which does no I/O: whether the server is fit, and what an operator should
// know.
type Checker interface {
	// Check reads each server once and returns its findings, in an order that is good to read.
	// It writes no more than a first claim would (a key or a document of the store's own),
	// subscribes to nothing, takes few round trips, and reads all that it can reach even if
	// other parts are unreachable. Information that this user may not read is reported as
	// such, and is no failure if locks work without it.
	//
	// The engine calls it once for a Store, concurrently with the first claim, and logs findings
	// that are not LevelOK as warnings: so only a finding worth a line in the log of each
	// process is a Warning. The command's doctor shows all.
	Check(ctx context.Context) []Finding
}

// A Finding is one result of a Check.
type Finding struct {
	// About is what was checked, in a few words, and on which server if there are
	// several: "version", "clock of 10.0.0.2:6379".
	About string
	// Found is its state; for a Warning also the consequences and what to do. It
	// may be empty if there is an Err.
	Found string
	// Warning says that locks work, but not in every situation.
	Warning bool
	// Err is why locks do not work, and what to do. It matches ErrUnsupported,
	// ErrDenied, ErrUnavailable, ErrCorrupt or ErrInvalid.
	Err error
	// Run is what an operator can run verbatim to fix it, or to create what is
	// missing: SQL, or commands of the server or a shell. It may have several
	// lines.
	Run string
}

// Level says how bad a finding is.
type Level string

// The levels of a Finding.
const (
	LevelOK      Level = "ok"      // no problem
	LevelWarning Level = "warning" // locks work, but an operator should know of it
	LevelFailure Level = "failure" // locks do not work, or not safely
)

// Level is LevelFailure if there is an Err, else LevelWarning if there is a
// Warning, else LevelOK.
func (f *Finding) Level() Level {
	switch {
	case f.Err != nil:
		return LevelFailure
	case f.Warning:
		return LevelWarning
	}
	return LevelOK
}

// Text is the finding in words: Found, and the Err if there is one.
func (f *Finding) Text() string {
	switch {
	case f.Err == nil:
		return f.Found
	case f.Found == "":
		return f.Err.Error()
	}
	return f.Found + ": " + f.Err.Error()
}

// ClockFinding is the Finding of a server's clock: by how much it is ahead of this host's, and the uncertainty
// of that. The uncertainty is usually half the round trip, as the server may have answered at either end of it.
func ClockFinding(ahead, within time.Duration) Finding {
	ahead, within = ahead.Round(100*time.Microsecond), max(within.Round(100*time.Microsecond), 100*time.Microsecond)
	f := Finding{About: "clock", Found: fmt.Sprintf("%v ahead of this host's, to within %v", ahead, within)}
	switch {
	case ahead.Abs() <= within:
		f.Found = fmt.Sprintf("the same as this host's, to within %v", within)
	case ahead < 0:
		f.Found = fmt.Sprintf("%v behind this host's, to within %v", -ahead, within)
	}
	return f
}
