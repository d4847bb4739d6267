package engine

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// Hand-over: a hold passes from one lease to the next inside this process, without
// a request. For the store it stays one hold. The next renewal reports the new owner
// and the newest token.

// HandOver bounds hand-overs of a name inside the process. See package holdfast.
type HandOver struct {
	// Times is how many leases may hold the name one after another under one
	// grant of the store, 2 to 64.
	Times int
	// For is how long after that grant the name may be handed on. It does not
	// bound how long a lease is held.
	For time.Duration
}

// maxHandOver is the largest HandOver.Times.
const maxHandOver = 64

var defaultHandOver = HandOver{Times: maxHandOver, For: 50 * time.Millisecond}

// handOver says how often and until when a hold may be handed on. It is zero for a
// hold that is never handed on. The scheduler's lock guards left; the rest does not
// change once the scheduler has the hold.
type handOver struct {
	left       int           // tokens of its block that no lease has had
	since      clock.Instant // when it was granted
	until      clock.Instant // no hand-over after this
	ttl, delay time.Duration // the hold's TTL and LockDelay in the store
}

// block returns how many tokens to ask for: one if the hold cannot be handed on.
// A hold of part of the limit cannot, as other holds may draw tokens in between. A
// minimum hold cannot, as it counts from the grant and for its caller alone. Under
// NoRenew a hold cannot, as each lease must last for a whole TTL.
func (w *Target) block() int {
	if w.weight < w.limit || w.l.s.MinHold > 0 || w.l.s.NoRenew { //mutant:minimum-hold-handed-over
		return 1
	}
	return max(w.l.s.HandOver.Times, 1) //mutant:zero-default
}

// suits reports whether the hold may be handed to the target. The target must ask for
// the same limit and weight, with the TTL and LockDelay that the store has for the
// hold. The owner may differ, as a renewal updates it.
func (h *hold) suits(w *Target) bool {
	s := w.l.s
	return w.limit == h.limit && w.block() > 1 && s.TTL == h.handOver.ttl && s.LockDelay == h.handOver.delay //mutant:handed-over-another-ttl
}

// handOn makes a lease for the target, of a hold whose leases were all released. The
// lease has the next token of the block and the hold's deadline, even while a renewal
// is under way. handOn returns nil if no token is left, the time for hand-overs has
// passed, half of the time that the store last granted is gone (a lease should not
// begin with little time left), the hold is lost, or the engine is closing.
func (s *scheduler) handOn(ctx context.Context, h *hold, w *Target) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.e.now()
	if h.index < 0 || h.handOver.left == 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing() { //mutant:handed-over-more-often
		return nil
	}
	h.mu.Lock()
	h.handOver.left--
	h.Used++                           //mutant:handed-over-same-token
	if h.s != w.l.s || h.Owner != "" { //mutant:note-of-the-one-before
		h.s, h.Owner = w.l.s, w.l.s.owner //mutant:store-told-now
	}
	h.since = s.e.stamp(h.s)
	h.done, h.unseen, h.silent = false, true, false
	l := h.lease(w, h.Used, values{ctx})
	h.values = &l.values //mutant:values-handed-over
	h.mu.Unlock()
	h.endAt = 0 //mutant:handed-over-new-deadline
	if h.s.MaxHold > 0 {
		h.endAt = now.Add(h.s.MaxHold) //mutant:maxhold-all
	}
	if at := h.next(); at != h.at {
		h.at = at
		heap.Fix(&s.holds, h.index)
		s.arm()
	}
	return l
}

// give hands the hold, whose leases were all released, to the next waiter of this
// process, or gives it back to the store. It does not report the end of a lease that
// its caller has not seen (seen is false).
func (h *hold) give(seen bool) error {
	g := &h.e.queues
	s, end := h.s, h.event(EventReleased, h.age(), nil) // before handOn changes them
	done, leaving := g.handOn(h)
	switch {
	case done && seen:
		s.notify(end) //mutant:end-lease-handed-observed
		return nil
	case done:
		return nil
	case leaving && h.e.desc.InProcess: //mutant:release-first-then-ask
		defer g.left(h.Name) // once the name is free, so that the next waiter needs no queue position
	case leaving:
		// The next waiter asks while the release is under way. Whichever arrives
		// first, the waiters in the store are granted before it.
		g.left(h.Name)
	}
	if !seen {
		return h.giveBack()
	}
	return h.release()
}

// handedOver reports to the observer that the lease was handed over to its caller. If
// the lease has ended already, it reports that too, which had to wait for this. The
// hold is read under its lock: whoever found the lease by Held may have released it,
// and then the hold may be handed on again meanwhile.
func (l *Lease) handedOver(began clock.Instant) {
	h := l.hold
	h.mu.Lock()
	h.unseen = false //mutant:seen-told-over
	over, why := h.silent, l.why
	s, event := h.s, h.event(EventHandedOver, h.since.Sub(began), nil) //mutant:hand-over-told-grant
	h.mu.Unlock()
	h.debugBy(s.Logger, "holdfast: handed over")
	s.notify(event)
	if !over { //mutant:over-before-seen-told
		return
	}
	if !errors.Is(why, store.ErrLost) {
		why = nil
	}
	h.observe(endOf(why), h.age(), why)
}

// abandon gives back a lease that its caller will never see.
func (l *Lease) abandon() {
	h := l.hold
	if _, why := h.leave(l); why != nil {
		return
	}
	if h.e.desc.InProcess {
		_ = h.give(false)
		return
	}
	h.e.work.Go(func() { _ = h.give(false) })
}

// refusal is what the store would answer to a claim that waits for the hold.
func (h *hold) refusal() *refused {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.left()
	owner := h.s.Owner
	if h.Owner != "" {
		owner = store.ParseOwner(h.Owner)
	}
	return &refused{when: time.Now(), answer: store.Answer{
		Holding: 1,
		Holders: []store.Entry{{
			ID: h.ID, Weight: h.limit, Granted: true, Token: h.Used,
			Age: h.e.now().Sub(h.handOver.since), Expires: left, Ends: left, Owner: owner,
		}},
	}}
}
