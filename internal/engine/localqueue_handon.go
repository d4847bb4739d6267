package engine

import "time"

// What a local queue does with a hold that may be handed on inside the process.

// waitsForHold reports whether the first in line waits for a hold that it will
// be handed. One that will not be does not wait: it asks the store for a position. So it is
// while one in line asks the holders to give up, as they hear of that by the store.
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
	case at.armed != 0 && at.armed <= at.hold.handOver.until: // soon enough, if for a hold before it //mutant:armed-for-hold-before
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

// handOn hands a hold that all its leases have left to the first in line, if
// its bounds allow that. Else, if it was the local queue's, nobody is handed anything
// any more, and nobody is admitted until the caller calls left.
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

// left admits the next once a hold was given back, or is about to be.
func (g *localQueues) left(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[name]; at != nil {
		at.leaving = false
		g.admitNext(at)
	}
}

// drop admits the first in line where it waits for a hold that is over.
func (g *localQueues) drop(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[h.Name]; at != nil && at.hold == h {
		at.hold = nil
		g.admitNext(at)
	}
}
