package holdfast

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// An Event is something that became of a claim or of a hold, for
// [Options.Observer]. A field may be added to it, and a kind: take those that
// you know and ignore the rest.
//
// Each claim that was sent, or waited for its turn to be, ends with one of
// EventGranted, EventHandedOver, EventRefused and EventFailed, unless
// [Locker.Close] ended it. Each hold begins with one of the first two and ends
// with one of EventReleased and EventLost: where it is handed on inside the
// process (HandOver), it ends for one and begins for the next. Mistakes that are
// found before anything is sent are no events.
type Event struct {
	Kind  EventKind
	Name  string // what is locked
	Store string // for people: kind and address
	Token int64  // of the hold; 0 where there is none
	// After is how long it took, which each kind defines. Never negative.
	After time.Duration
	// Err is why. It is what the caller of the claim or the release gets, or
	// what the store said to a renewal; of a grant and a renewal it is nil.
	Err error
}

// An EventKind says what happened.
type EventKind int8

const (
	// EventGranted: a claim got its hold. After is how long it took from the
	// call, waiting included.
	EventGranted EventKind = iota + 1
	// EventHandedOver: a claim got its hold from another of this process, and the
	// store was not asked. After is as for EventGranted.
	EventHandedOver
	// EventRefused: a claim ended without a hold as others were ahead: a try, or
	// a wait that its context or Options.Wait ended. Err matches ErrHeld. After
	// counts from the call.
	EventRefused
	// EventFailed: a claim ended without a hold, and no answer of the store says
	// that others were ahead: Err matches ErrUnavailable if it is unclear what
	// became of it, the context's error if that ended it before the store had
	// answered, or another of the Err values. After counts from the call.
	EventFailed
	// EventRenewed: a renewal was answered. After is its lateness: how long
	// after it was due the answer came, over all attempts.
	EventRenewed
	// EventRenewalFailed: an attempt to renew was not answered, or refused for
	// now; it is repeated until the deadline. After is how long ago the renewal
	// was due.
	EventRenewalFailed
	// EventReleased: a hold was given back, detached or handed on. After is how
	// long it was held. Err is nil, or says that it is unclear whether the store
	// has heard of it: then the name is free after the TTL at the latest.
	EventReleased
	// EventLost: a hold was lost, or its release found that it had been. Err
	// matches ErrLost and says why. After is how long it was held.
	EventLost
)

var eventKinds = map[EventKind]string{
	EventGranted: "granted", EventHandedOver: "handed over", EventRefused: "refused", EventFailed: "failed", EventRenewed: "renewed",
	EventRenewalFailed: "renewal failed", EventReleased: "released", EventLost: "lost",
}

// String is a word or two, as "lost".
func (k EventKind) String() string {
	if s, ok := eventKinds[k]; ok {
		return s
	}
	return fmt.Sprintf("event %d", int8(k))
}

// stamp is when something begins whose end the observer is told of; 0 if there
// is no observer, as reading the clock is dear on a fast store.
func (e *engine) stamp(s *settings) clock.Instant {
	if s.Observer == nil {
		return 0
	}
	return e.now()
}

// observe tells the observer of the hold. It must not be called with a lock
// held: the observer is the user's code.
func (h *hold) observe(kind EventKind, after time.Duration, err error) {
	h.s.tell(h.event(kind, after, err))
}

func (h *hold) event(kind EventKind, after time.Duration, err error) Event {
	return Event{kind, h.Name, h.e.desc.Store, h.Used, max(after, 0), err}
}

// age is how long the hold has been held, if there is an observer.
func (h *hold) age() time.Duration { return h.e.stamp(h.s).Sub(h.since) }

// tell tells the observer, if there is one.
func (s *settings) tell(e Event) {
	if s.Observer != nil {
		defer s.survive(e.Kind)
		s.Observer(e)
	}
}

// survive ends a panic of the observer and logs it: it is called between the
// steps of the work, and what it counts must not cost a lease.
func (s *settings) survive(kind EventKind) {
	if p := recover(); p != nil {
		s.Logger.Error("holdfast: Options.Observer panicked; the event is dropped and the lease is not affected", "event", kind.String(), "panic", p, "stack", string(debug.Stack()))
	}
}

// observeEnd tells the observer that the hold is over, unless he was not told
// that it began.
func (h *hold) observeEnd(err error) {
	h.mu.Lock()
	silent := h.silent
	h.mu.Unlock()
	if !silent {
		h.observe(endOf(err), h.age(), err)
	}
}

// endOf is the kind of the end of a hold.
func endOf(err error) EventKind {
	if errors.Is(err, ErrLost) {
		return EventLost //mutant:loss-release-finds-release
	}
	return EventReleased
}

// failed tells the observer that a claim which began at that instant got no
// hold, if err is not nil, and returns err. What Close has ended is no news.
func (w *want) failed(began clock.Instant, err error) error {
	s := w.l.s
	if err == nil || s.Observer == nil || errors.Is(err, ErrClosed) {
		return err
	}
	kind := EventFailed //mutant:failed-claim-refusal
	if errors.Is(err, ErrHeld) {
		kind = EventRefused
	}
	s.tell(Event{Kind: kind, Name: w.name, Store: w.l.e.desc.Store, After: w.l.e.now().Sub(began), Err: err})
	return err
}

// A renewalTold is what is told of a renewal once no lock is held.
type renewalTold struct {
	s *settings
	e Event
}

// renewalTold is made while the scheduler's lock is held, as without it the
// hold may be handed on.
func (h *hold) renewalTold(late time.Duration, err error) renewalTold {
	if err != nil {
		return renewalTold{h.s, h.event(EventRenewalFailed, late, unclear(err))}
	}
	return renewalTold{h.s, h.event(EventRenewed, late, nil)}
}
