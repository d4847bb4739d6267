package store

import (
	"context"
	"fmt"
	"time"
)

// A Checker is a store that can find out more about its server than Describe
// may, which does no I/O: whether it will do, and what an operator should know.
type Checker interface {
	// Check looks at each server once and returns what it found, in the order in
	// which a person would want to read it. It writes no more than a first claim
	// would (a key or a document of the store's own), subscribes to nothing, takes few
	// round trips, and has looked at all that it can reach when something else is away. What this
	// user may not read is reported as such, and is no failure if locks work
	// without it.
	//
	// The engine calls it once for a Store, at the first claim and beside it,
	// and logs what is not LevelOK as warnings: only what is worth a line in
	// the log of each process is a Warning. The command's doctor shows all.
	Check(ctx context.Context) []Finding
}

// A Finding is one thing that a Checker has looked at.
type Finding struct {
	// About is what was looked at, a word or a few, and of which server if
	// there are several: "version", "clock of 10.0.0.2:6379".
	About string
	// Found is what it is like; if Warning, then also what may come of it and
	// what to do. It may be empty if there is an Err.
	Found string
	// Warning says that locks work, but not under all that can happen.
	Warning bool
	// Err is why locks do not work, and what to do. It matches ErrUnsupported,
	// ErrDenied, ErrUnavailable, ErrCorrupt or ErrInvalid.
	Err error
	// Run is what an operator can run as it is to fix it, or to prepare what
	// is found missing: SQL, or commands of the server or a shell. It may have
	// several lines.
	Run string
}

// Level says how bad a finding is.
type Level string

// The levels of a Finding.
const (
	LevelOK      Level = "ok"      // all is as it should be
	LevelWarning Level = "warning" // locks work, and an operator should know of it
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

// Text is what was found, in words: Found, and the Err if there is one.
func (f *Finding) Text() string {
	switch {
	case f.Err == nil:
		return f.Found
	case f.Found == "":
		return f.Err.Error()
	}
	return f.Found + ": " + f.Err.Error()
}

// ClockFinding is the Finding of a server's clock: by how much it is ahead of this host's, which was read to within so
// much. That is half the round trip of the question as a rule, as the server may have answered at either end of it.
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
