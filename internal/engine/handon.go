package engine

import "time"

// What a gate does with a hold that may be handed on inside the process.

// waitsForHold reports whether the first in line waits for a hold that it will
// be handed. One that will not be does not wait: it asks the store for a place.
// g.mu is held.
func (g *gates) waitsForHold(at *gate) bool {
	if at.hold == nil {
		return false
	}
	left := at.hold.handOver.until.Sub(g.e.now()) //mutant:handed-over-ever-too
	switch {
	case left <= 0 || !at.hold.suits(at.first.w): //mutant:nobody-asks-time-over
		at.hold = nil
		return false
	case at.armed: // for this hold or one before it
	case at.timer == nil:
		at.armed = true
		at.timer = time.AfterFunc(left, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			at.armed = false
			if at.first != nil {
				g.admit(at)
			}
		})
	default:
		at.armed = true
		at.timer.Reset(left)
	}
	return true
}

// handOn hands a hold that all its leases have left to the first in line, if
// its bounds allow that. Else, if it was the gate's, nobody is handed anything
// any more, and nobody is let in until the caller calls left.
func (g *gates) handOn(h *hold) (done, leaving bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[h.Name]
	if at == nil || at.hold != h {
		return false, false
	}
	if p := at.first; p != nil {
		if p.lease = g.e.sched.handOn(h, p.w); p.lease != nil {
			at.remove(p)
			close(p.in)
			g.admit(at)
			return true, false
		}
	}
	at.hold = nil //mutant:all-ask-bounds-reached
	at.leaving = true
	return false, true
}

// left lets in the next once a hold was given back, or is about to be.
func (g *gates) left(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[name]; at != nil {
		at.leaving = false
		g.admit(at)
	}
}

// drop lets in the first in line where it waits for a hold that is over.
func (g *gates) drop(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[h.Name]; at != nil && at.hold == h {
		at.hold = nil
		g.admit(at)
	}
}
