package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// An Event is something that happened to a claim or a hold, for
// [Options.Observer]. Later versions may add fields and kinds: ignore those that you do
// not know.
//
// Each claim that was sent, or waited to be sent, ends with one of EventGranted,
// EventHandedOver, EventRefused and EventFailed, unless [Locker.Close] ended it.
// Each hold begins with one of the first two and ends with one of EventReleased
// and EventLost: where it is handed over inside the process (HandOver), it ends
// for one and begins for the next. Mistakes that are found before anything is
// sent are no events.
type Event struct {
	Kind  EventKind // what happened
	Name  string    // what is locked
	Store string    // for people: kind and address
	Token int64     // of the grant, which an upgrade does not change; 0 if there is none, as for a claim that waits
	// After is a duration, which each kind defines. Never negative.
	After time.Duration
	// Err is the reason: the error that the caller of the claim or the release gets,
	// the store's error for a renewal, or a *HeldError for a claim that waits. It is
	// nil for a grant and for a renewal that succeeded.
	Err error
	// Reason is why a waiter asks for the hold, of EventAskedToGiveUp.
	Reason string
	// ID is the id of the claim; its String is [Lease.ID]. Leases to which a name is handed
	// over inside the process have that of the first. It is zero for a claim that has not
	// asked the store.
	ID store.ID
	// Owner is the owner of the claim, with the Note of its options.
	Owner Owner
	// Context has the values of the context of the claim that failed, waits, or has
	// the hold, such as a trace. It never ends and has no deadline.
	Context context.Context
	// Candidate says that the claim is for an [Election]: it is normal that it waits for days,
	// and leads for months.
	Candidate bool
}

// An EventKind says what happened.
type EventKind int8

const (
	// EventGranted: a claim got its hold. After is how long it took from the
	// call, waiting included.
	EventGranted EventKind = iota + 1
	// EventHandedOver: a claim got its hold from another of this process, without
	// a call to the store. After is as for EventGranted.
	EventHandedOver
	// EventRefused: a claim ended without a hold because others were ahead: a try, a
	// wait that its context or Options.Wait ended, or one that Options.MaxWaiting did
	// not let wait. Err matches ErrHeld. After counts from the call.
	EventRefused
	// EventFailed: a claim ended without a hold, and no answer of the store says
	// that others were ahead: Err matches ErrUnavailable if its outcome is unknown,
	// the context's error if that ended it before the store had answered, or another
	// of the Err values. After counts from the call.
	EventFailed
	// EventRenewed: a renewal was answered. After is its lateness: how long
	// after it was due the answer came, over all attempts.
	EventRenewed
	// EventRenewalFailed: an attempt to renew was not answered, or refused for
	// now; it is repeated until the deadline. After is how long ago the renewal
	// was due.
	EventRenewalFailed
	// EventReleased: a hold was given back, detached or handed over. After is how long
	// it was held. Err is nil, or says that the outcome is indeterminate: then the
	// name is free after the TTL at the latest.
	EventReleased
	// EventLost: a hold was lost, or its release found that it had been. Err
	// matches ErrLost and says why. After is how long it was held.
	EventLost
	// EventAskedToGiveUp: a waiter asks for the hold, and says why (Reason). It
	// comes once for each reason. After is how long it has been held.
	EventAskedToGiveUp
	// EventWaiting: a claim has begun to wait, or those ahead of it have changed, as of
	// the store's last answer; for a claim that waits behind others of this process, as
	// of its arrival. Err is a *HeldError: the holders, since when they hold, and how
	// many wait ahead. After counts from the call. A waiting upgrade has this event too,
	// with the Token of its lease: no one waits ahead of it, and its own hold is not in
	// Err.
	EventWaiting
)

// String returns a word or two, such as "lost".
func (k EventKind) String() string { return engine.EventKind(k).String() }

// observing adapts f to the engine's events, which have the same kinds and fields.
func observing(f func(Event)) func(engine.Event) {
	if f == nil {
		return nil
	}
	return func(e engine.Event) {
		f(Event{EventKind(e.Kind), e.Name, e.Store, e.Token, e.After, e.Err, e.Reason, e.ID, e.Owner, e.Context, e.Candidate})
	}
}
