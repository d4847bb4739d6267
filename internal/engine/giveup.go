package engine

import (
	"github.com/holdfast-go/holdfast/store"
)

// A waiter asks the holders of its name to give it up: its ask says why, and the
// store returns that with each renewal of a hold of the name. Nothing is sent for
// this but what is sent anyway, unless a waiter asks.

// AskedToGiveUp returns a channel that is closed while a waiter asks for the name.
// From the first call on notifications of the hold are listened to.
func (l *Lease) AskedToGiveUp() <-chan struct{} {
	h := l.hold
	if !l.over.Load() {
		h.e.sched.listen(h)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state != held { //mutant:asked-when-over
		return make(chan struct{})
	}
	if h.asked == nil {
		h.asked = make(chan struct{})
		if h.giveUp != "" {
			close(h.asked)
		}
	}
	return h.asked
}

// GiveUpReason is why a waiter asks for the name; empty: none does, or the lease is
// over.
func (l *Lease) GiveUpReason() string {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.state != held {
		return ""
	}
	return l.hold.giveUp
}

// hearsAsk notes what a renewal has said of those who ask, and reports whether
// somebody does who was not heard before.
func (h *hold) hearsAsk(reason string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reason == h.giveUp { //mutant:asked-told-each-time
		return false
	}
	if h.asked != nil {
		switch {
		case reason == "":
			h.asked = nil //mutant:asked-for-ever
		case h.giveUp == "":
			close(h.asked)
		}
	}
	h.giveUp = reason
	return reason != ""
}

// listen has the notifications of the hold renew it, which tells whether somebody
// asks for it; so has one that came before. It subscribes where nobody has yet: where
// that fails, the next renewal tells.
func (s *scheduler) listen(h *hold) {
	if _, lacks := s.e.desc.Lacks[store.PromiseGiveUp]; lacks {
		return
	}
	s.mu.Lock()
	over, first, by := h.index < 0, !h.listens, h.s
	if !over {
		h.listens = true
	}
	s.mu.Unlock()
	if over || !first || !s.e.enter() {
		return
	}
	defer s.e.work.Done()
	n := &s.e.notifications
	missed := n.addHold(h)
	n.begin(by)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.index < 0: // it has ended meanwhile, and was not there to be removed
		n.removeHold(h)
	case missed:
		s.renewNow(h)
	}
}

// notified renews the hold now, or as soon as the operation on it has ended. A
// hold that is renewed by hand learns of it by the next renewal.
func (s *scheduler) notified(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewNow(h)
}

// renewNow has the hold renewed as soon as no operation on it is under way, unless it has
// ended, is renewed by hand, or is not shown yet. s.mu is held.
func (s *scheduler) renewNow(h *hold) {
	if h.index < 0 || h.s.NoRenew || h.unshown != nil {
		return
	}
	h.toRenew = true
	s.moved(h)
	s.arm()
}

// asks is what the ask of one that is inside says to the holders: its own reason;
// or, of the first inside, that of the first in line that has one, as that does not
// ask the store itself.
func (g *localQueues) asks(p *waiter, w *Target) string {
	if own := w.l.s.AskToGiveUp; own != "" || p == nil || p.queue.asking.Load() == 0 {
		return own
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.queue.asksFor(p)
}

// asksFor is asks for one that has no reason itself. The lock is held.
func (at *localQueue) asksFor(p *waiter) string {
	if len(at.inside) == 0 || at.inside[0] != p { //mutant:all-inside-ask
		return ""
	}
	for q := at.first; q != nil; q = q.next {
		if why := q.w.l.s.AskToGiveUp; why != "" {
			return why //mutant:in-line-asks-nobody
		}
	}
	return ""
}

// askAgain has the first inside ask once more, now that one in line asks the
// holders to give up. The lock is held.
func (at *localQueue) askAgain() {
	if len(at.inside) == 0 {
		return
	}
	if p := at.inside[0]; p.wake != nil && p.w.l.s.AskToGiveUp == "" {
		put(p.wake, store.Notification{}) //mutant:in-line-asks-late
	}
}
