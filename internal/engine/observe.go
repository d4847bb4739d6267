package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// An Event is something that happened to a claim or a hold. Package holdfast
// documents each kind and field.
type Event struct {
	Kind  EventKind
	Name  string
	Store string
	Token int64
	After time.Duration
	Err   error

	Reason  string // why a waiter asks
	ID      store.ID
	Owner   store.Owner
	Context context.Context

	Candidate bool // of an election
}

// An EventKind says what happened.
type EventKind int8

const (
	EventGranted EventKind = iota + 1
	EventHandedOver
	EventRefused
	EventFailed
	EventRenewed
	EventRenewalFailed
	EventReleased
	EventLost
	EventAskedToGiveUp
	EventWaiting
)

var eventKinds = map[EventKind]string{
	EventGranted: "granted", EventHandedOver: "handed over", EventRefused: "refused", EventFailed: "failed", EventRenewed: "renewed",
	EventRenewalFailed: "renewal failed", EventReleased: "released", EventLost: "lost", EventAskedToGiveUp: "asked to give up",
	EventWaiting: "waiting",
}

// String returns the kind in words, such as "lost".
func (k EventKind) String() string {
	if s, ok := eventKinds[k]; ok {
		return s
	}
	return fmt.Sprintf("event %d", int8(k))
}

// stamp returns the current time, from which a later event counts. Without an observer
// it returns 0, as reading the clock is expensive compared with a fast store.
func (e *engine) stamp(s *settings) clock.Instant {
	if s.Observer == nil {
		return 0
	}
	return e.now()
}

// observe reports an event of the hold to the observer. No lock may be held, as the
// observer is the user's code.
func (h *hold) observe(kind EventKind, after time.Duration, err error) {
	h.s.notify(h.event(kind, after, err))
}

func (h *hold) event(kind EventKind, after time.Duration, err error) Event {
	return Event{
		Kind: kind, Name: h.Name, Store: h.e.desc.Store, Token: h.Used, After: max(after, 0), Err: err,
		ID: h.ID, Owner: h.s.Owner, Context: h.values, //mutant:event-of-a-hold-says-whose
		Candidate: h.first.leads, //mutant:event-of-a-leader
	}
}

// age returns how long the hold has been held; without an observer, 0.
func (h *hold) age() time.Duration { return h.e.stamp(h.s).Sub(h.since) }

// notify passes the event to the observer, if there is one.
func (s *settings) notify(e Event) {
	if s.Observer != nil {
		defer s.survive(e.Kind) //mutant:observer-panics
		s.Observer(e)
	}
}

// survive recovers from a panic of the observer and logs it. The observer is called
// between steps of the engine's work, and a bug in it must not cost a lease.
func (s *settings) survive(kind EventKind) {
	if p := recover(); p != nil {
		s.Logger.Error("holdfast: Options.Observer panicked; the event is dropped and the lease is not affected", "event", kind.String(), "panic", p, "stack", string(debug.Stack()))
	}
}

// observeEnd reports the end of the hold to the observer, unless the hand-over of the
// hold has not been reported yet.
func (h *hold) observeEnd(err error) {
	h.mu.Lock()
	silent := h.silent
	h.mu.Unlock()
	if !silent {
		h.observe(endOf(err), h.age(), err)
	}
}

// endOf returns the kind of the event at the end of a hold.
func endOf(err error) EventKind {
	if errors.Is(err, store.ErrLost) {
		return EventLost //mutant:loss-release-finds-release
	}
	return EventReleased
}

// failed returns err. If err is not nil, it reports to the observer that a claim got no
// hold, unless Shutdown or Close ended it.
func (w *Target) failed(of *values, id store.ID, began clock.Instant, err error) error {
	s := w.l.s
	if err == nil || s.Observer == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	kind := EventFailed //mutant:failed-claim-refusal
	if errors.Is(err, store.ErrHeld) {
		kind = EventRefused
	}
	s.notify(w.event(kind, of, id, began, err))
	return err
}

// failed is Target.failed for a claim that has asked the store.
func (r *request) failed(err error) error { return r.w.failed(&r.values, r.claim.ID, r.began, err) }

// event makes an event of a claim that has no hold.
func (w *Target) event(kind EventKind, of *values, id store.ID, began clock.Instant, err error) Event {
	return Event{
		Kind: kind, Name: w.name, Store: w.l.e.desc.Store, After: w.l.e.now().Sub(began), Err: err,
		ID: id, Owner: w.l.s.Owner, Context: of, //mutant:event-of-a-claim-says-whose
		Candidate: w.leads, //mutant:event-of-a-candidate
	}
}

// A renewalReport is an event of a renewal, to be reported once no lock is held.
type renewalReport struct {
	s *settings
	e Event
}

// renewalReport makes the report. The scheduler's lock is held, as otherwise the hold
// may be handed on meanwhile.
func (h *hold) renewalReport(late time.Duration, err error) renewalReport {
	if err != nil {
		return renewalReport{h.s, h.event(EventRenewalFailed, late, indeterminate(err))}
	}
	return renewalReport{h.s, h.event(EventRenewed, late, nil)}
}
