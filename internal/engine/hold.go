package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A hold is one grant of the store. It is renewed until it is lost, or until its last
// lease is released and it is given back.
type hold struct {
	store.Hold
	e     *engine
	s     *settings
	limit int64
	since clock.Instant // when it was granted or handed on; 0 without an observer

	// unshown is the claim that is asked for again instead of a renewal, which would
	// show the token. It is set while a hold with a minimum hold waits for the other
	// names of its caller; else it is nil.
	unshown *store.Claim

	unrun atomic.Bool // its caller never got it, or did nothing under it, so no minimum hold is kept

	orphans uint64 // scheduler.orphans when it was asked for

	changer *changer // of an upgradeable hold; else nil

	values *values // of the claim whose lease has it now

	until atomic.Int64 // the deadline, an Instant, for readers without the scheduler's lock

	// Guarded by the scheduler's lock.
	at       clock.Instant // when the scheduler must handle it next
	deadline clock.Instant
	granted  time.Duration // what the last grant or renewal gave
	endAt    clock.Instant // when MaxHold has passed; 0: no bound
	handOver handOver
	renewAt  clock.Instant
	due      clock.Instant // when the renewal under way was first due
	turn     uint64        // number of that renewal among all; 0: none yet
	retries  int           // indeterminate renewals in a row
	index    int           // in the heap; -1: not in it
	reported error         // the store's error, if that says that the hold is lost
	flight   chan struct{} // closed when the renewal under way has ended; nil: there is none
	toRenew  bool          // renew it once no operation on it is under way
	listens  bool          // a notification renews it
	calls    []*byHand     // calls of Renew that the next renewal is for
	sending  []*byHand     // calls of Renew that the renewal under way is for

	mu     sync.Mutex
	done   bool          // it is lost, or all its leases were released
	leases *Lease        // leases that have not ended, linked by next
	users  int           // how many leases have not been released, including lost ones
	first  Lease         // most holds have only this lease; it needs no allocation of its own
	unseen bool          // it was handed on, and the next caller has not returned from its wait yet
	silent bool          // it ended while unseen: that caller reports the end; if it has left, nothing does
	giveUp string        // why a waiter asks for it; empty: no waiter asks
	asked  chan struct{} // closed while a waiter asks; nil: no caller of AskedToGiveUp uses it
}

// margin is how much earlier than in the store a hold expires here, in addition to
// one percent: for the resolution of the clocks and a slow wake-up.
const margin = 2 * time.Millisecond

// deadlineOf returns when a hold that lasts for ttl from the instant expires here.
func (e *engine) deadlineOf(from clock.Instant, ttl time.Duration) clock.Instant {
	if e.endless { //mutant:deadline-where-none
		return never
	}
	return from.Add(ttl - ttl/100 - margin) //mutant:no-one-percent
}

// left returns the time until the deadline. Once it has returned that no time is
// left, the hold has ended for good: a renewal that was answered in time but read
// late does not revive it.
func (h *hold) left() time.Duration {
	for {
		until := h.until.Load()
		left := clock.Instant(until).Sub(h.e.now())
		if left > 0 || until == seenOver || h.until.CompareAndSwap(until, seenOver) { //mutant:seen-over-revived
			return left
		}
	}
}

// seenOver in hold.until means that a caller has seen the deadline pass.
const seenOver = math.MinInt64

// ends sets the deadline. It returns false if a caller has seen the old one pass. The
// scheduler's lock is held.
func (h *hold) ends(at clock.Instant) bool {
	if !h.until.CompareAndSwap(int64(h.deadline), int64(at)) {
		return false
	}
	h.deadline = at
	return true
}

// checkClock ends the hold if its deadline has passed, as the timer may be late.
func (h *hold) checkClock() {
	if h.left() <= 0 {
		h.e.sched.remove(h)
		h.lose(errTimeOver)
	}
}

// lease adds a lease to the hold, which has not ended. h.mu is held, or the hold is
// not shared yet.
func (h *hold) lease(w *Target, token int64, of values) *Lease {
	l := &h.first
	if l.hold != nil {
		l = new(Lease)
	}
	l.hold, l.doing, l.token, l.values = h, w.doing(), token, of
	l.weight.Store(w.weight)
	l.next, h.leases = h.leases, l
	h.users++
	if w.leads { //mutant:leads-by-each-lease
		h.e.leading.begin(l)
	}
	return l
}

// finish ends the hold and all its leases. It returns false if the hold had ended
// before.
func (h *hold) finish(to state, why error) bool {
	h.mu.Lock()
	if h.done {
		h.mu.Unlock()
		return false
	}
	h.done, h.silent = true, h.unseen         //mutant:lost-way-told-over
	for l := h.leases; l != nil; l = l.next { //mutant:lease-hold-lost
		l.finish(to, why)
	}
	h.leases = nil
	h.mu.Unlock()
	h.e.queues.drop(h) //mutant:waits-hold-told-loss
	return true
}

// isOver reports whether the hold is lost or all its leases were released.
func (h *hold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done
}

// lose ends the hold as lost and reports that. The scheduler no longer has the hold.
func (h *hold) lose(why error) {
	if h.finish(lost, why) {
		h.ended(why) //mutant:loss-told
	}
}

// leave ends the lease, which its caller releases. It returns whether the lease was
// the last one of the hold to be released, and why it had ended before, if it had.
func (h *hold) leave(l *Lease) (last bool, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.left { //mutant:second-release-lease-counts
		l.left = true
		h.users--
		last = h.users == 0 //mutant:first-release-gives-name
	}
	if l.state != held {
		return last, l.why
	}
	l.finish(released, store.ErrReleased)
	at := &h.leases
	for *at != l {
		at = &(*at).next
	}
	*at = l.next //mutant:lease-handed-told-loss
	h.done = last
	return last, nil
}

// acknowledge handles the release of a hold that was lost. A hold that an operator
// broke blocks the name until it expires, as its owner may still be at work. A
// release tells the store that the owner is done, so that it can grant the next claim.
func (h *hold) acknowledge(why error) {
	if broken := (*store.LostError)(nil); errors.As(why, &broken) { //mutant:release-sent-after-loss
		h.sendRelease()
	}
}

// back returns the hold in the form that store.Release needs.
func (h *hold) back() store.Hold {
	back := h.Hold
	if h.unshown != nil || h.unrun.Load() { //mutant:roll-back-shows-token
		back.Token = 0 // nothing ran under it: no minimum hold is kept
	}
	return back
}

// sendRelease sends the release until its outcome is known or the time for it is up.
func (h *hold) sendRelease() error {
	back := h.back()
	return h.e.repeat(h.values, h.s.releaseFor(), nil, func(ctx context.Context) error { //mutant:release-takes-long-takes
		return h.e.store.Release(ctx, back)
	})
}

// giveBack stops renewing the hold and releases it.
func (h *hold) giveBack() error {
	flight, deadline := h.e.sched.remove(h)
	if flight != nil {
		<-flight //mutant:release-wait-renewal-flight
	}
	if h.reported != nil { //mutant:loss-told-last-renewal
		return h.reported // lost: nothing to give back
	}
	err := h.sendRelease()
	if h.ownRelease(err, deadline) {
		err = nil
	}
	return err
}

// ownRelease reports whether a release that was answered with err found nothing only
// because an earlier try, by the engine or by the driver, was applied. That is so if
// it is before the deadline, as no other claim could take the name until then. The
// caller has checked that no loss was reported.
func (h *hold) ownRelease(err error, deadline clock.Instant) bool {
	return errors.Is(err, store.ErrLost) && !h.e.endless && h.e.now() < deadline //mutant:repeated-release-loss
}

// release is giveBack, and reports the end of the hold.
func (h *hold) release() error {
	err := h.giveBack()
	h.ended(err)
	return err
}

// ended logs and reports the end of the hold, once: a loss, or a release with the
// result err.
func (h *hold) ended(err error) {
	switch {
	case errors.Is(err, store.ErrLost): //mutant:loss-release-finds-error
		h.s.Logger.Error("holdfast: lease lost", h.attrs("err", err)...)
	case err != nil:
		h.debug("holdfast: release failed, the name is free after the TTL", "err", err)
	default:
		h.debug("holdfast: released")
	}
	h.observeEnd(err)
}

var errTimeOver = fmt.Errorf("%w: its time ran out before a renewal was answered", store.ErrLost)

func (h *hold) debug(msg string, more ...any) { h.debugBy(h.s.Logger, msg, more...) }

func (h *hold) debugBy(logger *slog.Logger, msg string, more ...any) {
	if logger.Enabled(context.Background(), slog.LevelDebug) {
		logger.Debug(msg, h.attrs(more...)...)
	}
}

func (h *hold) attrs(more ...any) []any {
	h.mu.Lock()
	token := h.Used
	h.mu.Unlock()
	return append([]any{
		slog.String("name", h.Name), slog.Any("id", h.ID), slog.Int64("token", token),
		slog.String("store", h.e.desc.Store),
	}, more...)
}
