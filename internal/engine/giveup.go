package engine

import (
	"github.com/holdfast-go/holdfast/store"
)

// A waiter can ask the holders of its name to give it up. Its ask carries a reason,
// and the store returns the reason with each renewal of a hold of the name. While no
// waiter asks, this costs no request.

// AskedToGiveUp returns a channel that is closed while a waiter asks for the name.
// From the first call on, the engine listens to notifications of the hold.
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

// GiveUpReason returns why a waiter asks for the name. It is empty if no waiter asks
// or the lease has ended.
func (l *Lease) GiveUpReason() string {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.state != held {
		return ""
	}
	return l.hold.giveUp
}

// hearsAsk notes the reason that a renewal returned, and reports whether a waiter
// asks with a new one.
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

// listen makes each notification of the hold, including an earlier one, renew the
// hold: the answer says whether a waiter asks. listen subscribes to notifications if
// necessary. If that fails, the next regular renewal brings the request.
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
	case h.index < 0: // the hold ended meanwhile, perhaps before addHold
		n.removeHold(h)
	case missed:
		s.renewNow(h)
	}
}

// notified is renewNow for a notification. A hold that is renewed by hand learns of
// a waiter's request at its next renewal.
func (s *scheduler) notified(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewNow(h)
}

// renewNow makes the scheduler renew the hold as soon as no operation on it is under way,
// unless it has ended, is renewed by hand, or must not show its token yet. s.mu is held.
func (s *scheduler) renewNow(h *hold) {
	if h.index < 0 || h.s.NoRenew || h.unshown != nil {
		return
	}
	h.toRenew = true
	s.moved(h)
	s.arm()
}

// asks returns the reason that an admitted waiter's ask gives to the holders: its own
// or, for the first admitted waiter, that of the first waiter in line that has one, as
// waiters in line do not ask the store.
func (g *localQueues) asks(p *waiter, w *Target) string {
	if own := w.l.s.AskToGiveUp; own != "" || p == nil || p.queue.asking.Load() == 0 {
		return own
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.queue.asksFor(p)
}

// asksFor is asks for a waiter without a reason of its own. localQueues.mu is held.
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

// askAgain makes the first admitted waiter ask once more, with the reason of a waiter
// that has just come in line. localQueues.mu is held.
func (at *localQueue) askAgain() {
	if len(at.inside) == 0 {
		return
	}
	if p := at.inside[0]; p.wake != nil && p.w.l.s.AskToGiveUp == "" {
		put(p.wake, store.Notification{}) //mutant:in-line-asks-late
	}
}
