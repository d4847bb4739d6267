package engine

import "time"

// How a local queue hands on a hold inside the process.

// waitsForHold reports whether the first in line waits for a hold to be handed on. It
// asks the store for a position instead if the hold cannot be handed to it, or if a
// waiter in line asks the holders to give up, as they learn of that from the store.
// g.mu is held.
func (g *localQueues) waitsForHold(at *localQueue) bool {
	if at.hold == nil {
		return false
	}
	left := at.hold.handOver.until.Sub(g.e.now()) //mutant:handed-over-ever-too
	switch {
	case left <= 0 || !at.hold.suits(at.first.w): //mutant:nobody-asks-time-over
		at.hold = nil
		return false
	case at.asking.Load() > 0: //mutant:asks-once-handed-over
		at.hold = nil
		return false
	case at.armed != 0 && at.armed <= at.hold.handOver.until: // it fires soon enough, even if set for an earlier hold //mutant:armed-for-hold-before
	case at.timer == nil:
		at.armed = at.hold.handOver.until
		at.timer = time.AfterFunc(left, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			at.armed = 0
			if at.first != nil {
				g.admitNext(at)
			}
		})
	default:
		at.armed = at.hold.handOver.until
		at.timer.Reset(left)
	}
	return true
}

// handOn hands a hold whose leases were all released to the first in line, if the
// hold's bounds allow that (done). Otherwise, if it was the local queue's hold, it is
// no longer handed on, and no waiter is admitted until the caller calls left (leaving).
func (g *localQueues) handOn(h *hold) (done, leaving bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[h.Name]
	if at == nil || at.hold != h {
		return false, false
	}
	if p := at.first; p != nil {
		if p.lease = g.e.sched.handOn(p.ctx, h, p.w); p.lease != nil {
			at.remove(p)
			close(p.admitted)
			g.admitNext(at)
			return true, false
		}
	}
	at.hold = nil //mutant:all-ask-bounds-reached
	at.leaving = true
	return false, true
}

// left admits the next waiter: a hold was given back, or is about to be.
func (g *localQueues) left(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[name]; at != nil {
		at.leaving = false
		g.admitNext(at)
	}
}

// drop admits the first in line if it waits for the hold, which has ended.
func (g *localQueues) drop(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[h.Name]; at != nil && at.hold == h {
		at.hold = nil
		g.admitNext(at)
	}
}
