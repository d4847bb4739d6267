package store

import (
	"errors"
	"fmt"
)

// The closed set of errors. Package holdfast exports the same values; match
// them with errors.Is.
var (
	ErrHeld        = errors.New("held")                  // another claim is ahead
	ErrLost        = errors.New("lost")                  // the hold has ended
	ErrReleased    = errors.New("released")              // this lease was released before
	ErrClosed      = errors.New("closed")                // the locker was closed
	ErrDeadlock    = errors.New("deadlock")              // the claim would wait for itself
	ErrMismatch    = errors.New("another limit")         // the name is in use as a lock and asked for as a semaphore, or the reverse; see Claim.Limit
	ErrUnsupported = errors.New("unsupported")           // this store cannot do that
	ErrInvalid     = errors.New("invalid")               // a caller's mistake, found before any I/O
	ErrUnavailable = errors.New("store unavailable")     // no answer, or an indeterminate outcome
	ErrDenied      = errors.New("not allowed")           // the store refuses this user
	ErrCorrupt     = errors.New("stored state unusable") // the stored state is foreign, or damaged
)

// ErrContended is the error of an ask whose context ended while the server kept answering:
// others changed the name first each time, or the server is busy and each request waits. It
// is not an outage, and it is indeterminate: the claim may have left an entry. The engine
// asks again with the same id.
var ErrContended = errors.New("the server answers, but others come first each time")

// Definite reports whether err says for sure that the operation was not applied: whether
// it matches ErrLost, ErrMismatch, ErrInvalid, ErrDenied, ErrCorrupt or ErrUnsupported.
// Any other error is indeterminate.
func Definite(err error) bool {
	for _, d := range []error{ErrLost, ErrMismatch, ErrInvalid, ErrDenied, ErrCorrupt, ErrUnsupported} {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// A LostError is ErrLost with the reason that an operator gave for breaking
// the hold.
type LostError struct {
	Reason string // of the break; empty: unknown
}

// Error says that an operator has broken the hold, and why, if the reason is
// known.
func (e *LostError) Error() string {
	if e.Reason == "" {
		return ErrLost.Error()
	}
	return "lost: broken by an operator: " + e.Reason
}

// Is makes it match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// A MismatchError is ErrMismatch with both limits.
type MismatchError struct {
	Have int64 // the limit that the name is in use with
	Want int64 // the limit that was asked for
}

// Error names both, for people.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("another limit: it is in use as %s, asked for as %s", kind(e.Have), kind(e.Want))
}

// Is makes it match ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

func kind(limit int64) string {
	if limit == Full {
		return "a lock"
	}
	return fmt.Sprintf("a semaphore of %d", limit)
}

// NewerFormError returns the error of an operation that found state stored by a newer
// version of holdfast: where names it, have is the version of its format, and known the
// newest version that this program knows. It matches ErrUnsupported. The operation wrote
// nothing.
func NewerFormError(where string, have, known int) error {
	return fmt.Errorf("%w: %s is of stored form %d, this program knows up to %d: use a newer holdfast", ErrUnsupported, where, have, known)
}

// NotUpgradeableError returns the error of a Change of a hold of the name that was not
// granted as Upgradeable. It matches ErrInvalid. The Change changed nothing.
func NotUpgradeableError(name string) error {
	return fmt.Errorf("%w: change %q: it is held, but not as an upgradeable read", ErrInvalid, name)
}
