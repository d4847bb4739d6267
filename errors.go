package holdfast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// The closed set of errors: every error of this package matches one of them,
// or a context's error, with [errors.Is]. docs/operate.md has the command's
// exit code for each.
var (
	// ErrHeld: someone else holds the name or waits ahead. As a *HeldError it says who.
	ErrHeld = store.ErrHeld
	// ErrLost: the lease has ended before its release: it expired, an operator
	// broke it, the store forgot it, or its MaxHold has passed.
	ErrLost = store.ErrLost
	// ErrReleased: the lease was given back before.
	ErrReleased = store.ErrReleased
	// ErrClosed: the locker was closed.
	ErrClosed = store.ErrClosed
	// ErrDeadlock: the claim would wait for a lease that its own context comes from.
	ErrDeadlock = store.ErrDeadlock
	// ErrMismatch: the name is in use as a lock and asked for as a semaphore, or
	// the reverse; or, on a store that keeps one size per name, as a semaphore of
	// another size.
	ErrMismatch = store.ErrMismatch
	// ErrUnsupported: this store cannot do that, or the stored state was written
	// by a newer version.
	ErrUnsupported = store.ErrUnsupported
	// ErrInvalid: a mistake in the call, found before anything was sent.
	ErrInvalid = store.ErrInvalid
	// ErrUnavailable: the store did not answer, or the outcome is indeterminate.
	// Anything left behind expires after the TTL at the latest.
	ErrUnavailable = store.ErrUnavailable
	// ErrDenied: the store refuses this user.
	ErrDenied = store.ErrDenied
	// ErrCorrupt: the state stored under the name was not written by holdfast, or
	// is damaged. It is left as it is.
	ErrCorrupt = store.ErrCorrupt
)

// ErrNotRun: the function that was passed to a Do, or to any function like it
// (TryDo, Lead and the others), was not called. Every error of such a call
// matches it, and no error does once the function was called, whatever
// it returned itself. The error also matches one of the Err values, or a
// context's error, which says why. See also [ReleaseError].
var ErrNotRun = errors.New("the function was not called")

// A HeldError is ErrHeld with the holders that blocked the claim at the
// store's last answer. If a wait was ended by its context, it matches the
// context's error as well.
type HeldError struct {
	Name    string   // what was asked for
	Store   string   // for people: kind and address
	Holders []Holder // at most 8 of them
	Holding int      // how many block it by holding
	Waiting int      // how many wait ahead

	doing string
	ended error // the context's error, if that ended a wait
	most  int   // Options.MaxWaiting, if so many wait already
}

// A Holder holds a name: in a [HeldError] it blocks the claim; in a [Status] it holds the
// name or, in Freed, was broken. Its times are on this machine's clock, computed from the
// durations that the store returned. Expires and Ends are zero if the store did not return
// them. On a store that knows only who holds, all fields but Owner are zero.
type Holder struct {
	Owner
	ID      string    // of the claim, as [Lease.ID]
	Token   int64     // as [Lease.Token]
	Since   time.Time // when it was granted: time.Since says for how long it has been held
	Expires time.Time // unless renewed
	Ends    time.Time // when the name is free again at the latest, unless renewed
	Mode    Mode      // who else may hold the name; of an upgradeable read lock ModeRead until it is upgraded
	Slots   int       // of a semaphore; of a lock 0
	Broken  string    // who broke the hold and why ([Locker.Break]); empty: it was not broken
}

// Error says what was tried, on which name and store, and who blocks the claim.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q on %s: ", e.doing, e.Name, e.Store)
	if e.ended != nil {
		fmt.Fprintf(&b, "gave up waiting (%v): ", e.ended)
	}
	if e.most > 0 {
		fmt.Fprintf(&b, "MaxWaiting is reached, %d of this process wait already: ", e.most)
	}
	b.WriteString(e.Who())
	return b.String()
}

// Who names the holders that block the claim, on one line: "held by host
// web-3, pid 4711 (backup.sh), since 12:03:11 (2m4s), expires in 21s, 3
// waiting".
func (e *HeldError) Who() string {
	var parts []string
	now := time.Now()
	for i, h := range e.Holders {
		if i == 3 && len(e.Holders) > 4 {
			break
		}
		parts = append(parts, h.describe(now))
	}
	if more := e.Holding - len(parts); more > 0 && len(parts) > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	text := "held by " + strings.Join(parts, "; ")
	if len(parts) == 0 {
		text = "others are ahead"
	}
	if e.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting", e.Waiting)
	}
	return text
}

// String returns the owner, how long it has held the name, and how long it
// will, on one line.
func (h Holder) String() string { return h.describe(time.Now()) }

func (h *Holder) describe(now time.Time) string {
	text := h.Owner.String()
	if me := ThisProcess(); h.Host == me.Host && h.Space != me.Space {
		text += " in another container"
	}
	if h.Since.IsZero() {
		return text
	}
	text += fmt.Sprintf(", since %s (%s)", h.Since.Format(time.TimeOnly), engine.Short(now.Sub(h.Since)))
	switch left, ends := h.Expires.Sub(now), h.Ends.Sub(now); {
	case left > 0:
		text += ", expires in " + engine.Short(left)
	case ends > 0:
		text += ", which has ended, but the name stays taken for " + engine.Short(ends)
	}
	return text
}

// Unwrap makes it match ErrHeld, and the context's error if that ended a wait.
func (e *HeldError) Unwrap() []error {
	if e.ended != nil {
		return []error{ErrHeld, e.ended}
	}
	return []error{ErrHeld}
}

// refused makes the error of a refused claim.
func refused(r engine.Refusal) engine.HeldError {
	e := &HeldError{
		Name: r.Name, Store: r.Store, Holding: r.Answer.Holding, Waiting: r.Answer.Waiting,
		doing: r.Doing, ended: r.Ended, most: r.Most,
	}
	for i := range r.Answer.Holders {
		holder := Holder{Owner: r.Answer.Holders[i].Owner}
		if !r.OwnersOnly { //mutant:times-told-nobody-knows
			holder = holderOf(&r.Answer.Holders[i], r.Limit, r.When)
		}
		e.Holders = append(e.Holders, holder)
	}
	return e
}

// holderOf describes an entry that holds or blocks a name with the limit, as the store
// returned it at the time when.
func holderOf(e *store.Entry, limit int64, when time.Time) Holder {
	h := Holder{
		Owner: e.Owner, ID: e.ID.String(), Token: e.Token,
		Since: when.Add(-e.Age), Broken: e.Broken,
	}
	if e.Ends > 0 { //mutant:end-told-nobody-knows
		h.Expires, h.Ends = when.Add(e.Expires), when.Add(e.Ends)
	}
	h.Mode, h.Slots = modeOf(e.Weight, limit)
	return h
}
