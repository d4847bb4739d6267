package engine

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// Hand-over: a hold goes from one lease to the next inside this process, without
// a request. For the store it stays one hold; the next renewal reports the owner
// and the newest token.

// HandOver bounds the handing on of a name inside the process. See package
// holdfast.
type HandOver struct {
	// Times is how many leases may have the name one after another by one grant
	// of the store, 2 to 64.
	Times int
	// For is how long after that grant the name may still be handed on. It does
	// not bound how long a lease is held.
	For time.Duration
}

// maxHandOver is the largest HandOver.Times.
const maxHandOver = 64

var defaultHandOver = HandOver{Times: maxHandOver, For: 50 * time.Millisecond}

// handOver is how much further a hold may be handed on. It is guarded by the
// scheduler's lock, but for what does not change.
type handOver struct {
	left       int           // tokens of its block that nobody has had
	since      clock.Instant // the grant
	until      clock.Instant // not after that
	ttl, delay time.Duration // what the store has of the hold
}

// block is how many tokens to ask for: one where the hold cannot be handed on.
// Beside a hold that is not the whole limit there may be others, with tokens in
// between; a minimum hold counts from the grant, for the one who was granted;
// and under NoRenew a lease is to last for a whole TTL.
func (w *Target) block() int {
	if w.weight < w.limit || w.l.s.MinHold > 0 || w.l.s.NoRenew { //mutant:minimum-hold-handed-over
		return 1
	}
	return max(w.l.s.HandOver.Times, 1) //mutant:zero-default
}

// suits reports whether the target may be handed the hold: it asks for the same,
// and for the TTL and the lock delay that the store has of the hold. What the
// store has of its owner is renewed.
func (h *hold) suits(w *Target) bool {
	s := w.l.s
	return w.limit == h.limit && w.block() > 1 && s.TTL == h.handOver.ttl && s.LockDelay == h.handOver.delay //mutant:handed-over-another-ttl
}

// handOn makes a lease for the target of a hold that all its leases have left. It
// has the next token of the block, and the deadline that the hold has, renewal
// under way or not. It returns nil if that is out of bounds: no token is left,
// the time is over, or half of what the store granted last is gone, as the
// next should not begin with the dregs; if the hold is lost; or if the engine
// is closing.
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

// give hands the hold, which all its leases have left, to the next waiter of this
// process, or gives it back to the store. A lease that no caller has seen is not
// reported.
func (h *hold) give(seen bool) error {
	g := &h.e.queues
	s, end := h.s, h.event(EventReleased, h.age(), nil) // to hand it on changes it
	done, leaving := g.handOn(h)
	switch {
	case done && seen:
		s.notify(end) //mutant:end-lease-handed-observed
		return nil
	case done:
		return nil
	case leaving && h.e.desc.InProcess: //mutant:release-first-then-ask
		defer g.left(h.Name) // when the name is free: then no position is needed
	case leaving:
		// The next asks while the release is on its way. Whichever is there
		// first, those who wait in the store get in before it.
		g.left(h.Name)
	}
	if !seen {
		return h.giveBack()
	}
	return h.release()
}

// handedOver reports to the observer that the lease was handed on to its caller,
// and its end if it has ended already: that could not be reported before.
func (l *Lease) handedOver(began clock.Instant) {
	h := l.hold
	h.debug("holdfast: handed over")
	h.mu.Lock()
	h.unseen = false //mutant:seen-told-over
	over, why := h.silent, l.why
	h.mu.Unlock()
	h.observe(EventHandedOver, h.since.Sub(began), nil) //mutant:hand-over-told-grant
	if !over {                                          //mutant:over-before-seen-told
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

// refusal is why somebody waits for the hold, as the store would say it.
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
