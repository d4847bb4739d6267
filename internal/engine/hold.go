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

// A hold is what the store has granted: what is renewed, what is lost, and what
// is given back when the last of its leases is released.
type hold struct {
	store.Hold
	e     *engine
	s     *settings
	limit int64
	since clock.Instant // when it was granted or handed on, if there is an observer

	// unshown is what to ask for again in place of a renewal, which would show
	// the token: the claim has a minimum hold, and its owner has to get other
	// names yet. Else nil.
	unshown *store.Claim

	unrun atomic.Bool // its caller left before having it, or did nothing under it: no minimum hold is kept

	orphans uint64 // of the scheduler, when it was asked for

	changer *changer // of an upgradeable hold; else nil

	values *values // of the claim that has it now

	until atomic.Int64 // the deadline, an Instant, for those without the scheduler's lock

	// Guarded by the scheduler's lock.
	at       clock.Instant // when the scheduler has to look at it next
	deadline clock.Instant
	granted  time.Duration // what the last grant or renewal gave
	endAt    clock.Instant // when MaxHold has passed; 0: no bound
	handOver handOver
	renewAt  clock.Instant
	due      clock.Instant // when the renewal under way was first due
	turn     uint64        // of that renewal, among all; 0: none was yet
	retries  int           // indeterminate renewals in a row
	index    int           // in the heap; -1: not in it
	reported error         // the store's word that it is lost
	flight   chan struct{} // closed when the renewal under way has ended; nil: none is
	toRenew  bool          // now, once no operation on it is under way
	listens  bool          // its notifications are listened to
	calls    []*byHand     // calls of Renew that the next renewal is for
	sending  []*byHand     // those that the renewal under way is for

	mu     sync.Mutex
	done   bool          // it is lost, or all its leases were released
	leases *Lease        // those that are not over, linked by next
	users  int           // how many leases have not been released, be they lost or not
	first  Lease         // most holds have one lease: here, it costs no allocation of its own
	unseen bool          // it was handed on, and the next caller has not returned from its wait yet
	silent bool          // it was lost while unseen: that caller reports the loss, or nobody if it has left
	giveUp string        // why a waiter asks for it; empty: none does
	asked  chan struct{} // closed while one does; nil: nobody wants to know
}

// margin is how much earlier than in the store a hold expires here, in addition to
// one percent: for the resolution of the clocks and a slow wake-up.
const margin = 2 * time.Millisecond

// deadlineOf is when a hold of ttl that counts from the instant expires here.
func (e *engine) deadlineOf(from clock.Instant, ttl time.Duration) clock.Instant {
	if e.endless { //mutant:deadline-where-none
		return never
	}
	return from.Add(ttl - ttl/100 - margin) //mutant:no-one-percent
}

// left is how long it is until the deadline. Once it has been seen that nothing is
// left, the hold is over for good: no renewal that was answered in time, and is
// read late, revives it.
func (h *hold) left() time.Duration {
	for {
		until := h.until.Load()
		left := clock.Instant(until).Sub(h.e.now())
		if left > 0 || until == seenOver || h.until.CompareAndSwap(until, seenOver) { //mutant:seen-over-revived
			return left
		}
	}
}

// seenOver stands in hold.until for a deadline that somebody has seen to be past.
const seenOver = math.MinInt64

// ends sets the deadline, unless somebody has seen the one before to be past: then
// it returns false. The scheduler's lock is held.
func (h *hold) ends(at clock.Instant) bool {
	if !h.until.CompareAndSwap(int64(h.deadline), int64(at)) {
		return false
	}
	h.deadline = at
	return true
}

// checkClock ends a hold whose time is over though its timer is late.
func (h *hold) checkClock() {
	if h.left() <= 0 {
		h.e.sched.remove(h)
		h.lose(errTimeOver)
	}
}

// lease adds a lease to the hold, which is not over. Nobody else has it yet, or
// h.mu is held.
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

// finish makes the hold and all its leases over. It returns false if the hold
// was over before.
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

// lose tells that the hold is lost. The scheduler has taken it out before.
func (h *hold) lose(why error) {
	if h.finish(lost, why) {
		h.ended(why) //mutant:loss-told
	}
}

// leave releases the lease. It says whether it was the last one of the hold,
// and why it was over before, if it was.
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

// acknowledge answers the release of a hold that was lost. A hold that an operator
// broke blocks the name until it expires, as its owner may still be at work. A
// release says that it is not, and the next claim is granted.
func (h *hold) acknowledge(why error) {
	if broken := (*store.LostError)(nil); errors.As(why, &broken) { //mutant:release-sent-after-loss
		h.sendRelease()
	}
}

// back is the hold as it is given back.
func (h *hold) back() store.Hold {
	back := h.Hold
	if h.unshown != nil || h.unrun.Load() { //mutant:roll-back-shows-token
		back.Token = 0 // nobody ran: no minimum hold is kept
	}
	return back
}

// sendRelease sends the release until it is clear what became of it.
func (h *hold) sendRelease() error {
	back := h.back()
	return h.e.repeat(h.values, h.s.releaseFor(), nil, func(ctx context.Context) error { //mutant:release-takes-long-takes
		return h.e.store.Release(ctx, back)
	})
}

// giveBack stops the renewing and releases.
func (h *hold) giveBack() error {
	flight, deadline := h.e.sched.remove(h)
	if flight != nil {
		<-flight //mutant:release-wait-renewal-flight
	}
	if h.reported != nil { //mutant:loss-told-last-renewal
		return h.reported // there is nothing of ours to give back
	}
	err := h.sendRelease()
	if h.ownRelease(err, deadline) {
		err = nil
	}
	return err
}

// ownRelease reports whether a release that was answered with err found nothing
// because it had been done before, and was repeated by us or by the driver: no
// loss was reported, and before the deadline nobody else could take the name.
func (h *hold) ownRelease(err error, deadline clock.Instant) bool {
	return errors.Is(err, store.ErrLost) && !h.e.endless && h.e.now() < deadline //mutant:repeated-release-loss
}

// release is giveBack for a hold that was not over before.
func (h *hold) release() error {
	err := h.giveBack()
	h.ended(err)
	return err
}

// ended tells that the hold is over, once: by a loss, or by a release that came
// out like that.
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

func (h *hold) debug(msg string, more ...any) {
	if h.s.Logger.Enabled(context.Background(), slog.LevelDebug) {
		h.s.Logger.Debug(msg, h.attrs(more...)...)
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
