package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// gates are the queues inside the process, one a name: one waiter per process
// and name asks the store, the rest wait here in the order of arrival. While
// this process holds the name and may hand it on, all wait here.
type gates struct {
	e  *engine
	mu sync.Mutex
	m  map[string]*gate
}

// A gate is there while somebody is inside it, or the name is held by a hold
// that may be handed on. Who is inside is not in the list.
type gate struct {
	first, last *passer
	refused     *refused    // how the store last answered, for those who were never told
	hold        *hold       // what the first is handed when it is released; nil: somebody is inside
	timer       *time.Timer // lets the first in when the hold may not be handed on any more
	armed       bool
}

// A passer waits at a gate.
type passer struct {
	w          *want
	in         chan struct{} // closed when it is let in
	lease      *Lease        // it was handed the name, and has no need to ask
	prev, next *passer
}

// A refused is an answer of the store with the instant it came.
type refused struct {
	answer store.Answer
	when   time.Time
}

func (g *gates) init(e *engine) { g.e, g.m = e, map[string]*gate{} }

// enter waits until nobody else of this process is inside, or until the name is
// handed over: then it returns the lease, and is not inside. If it returns an
// error it is not inside either, and last is why it had to wait, or nil.
func (g *gates) enter(ctx context.Context, w *want) (l *Lease, last *refused, err error) {
	g.mu.Lock()
	at := g.m[w.name]
	if at == nil {
		g.m[w.name] = &gate{}
		g.mu.Unlock()
		return nil, nil, nil
	}
	p := &passer{w: w, in: make(chan struct{}), prev: at.last}
	if at.last == nil {
		at.first = p
	} else {
		at.last.next = p
	}
	at.last = p
	g.look(at)
	g.mu.Unlock()

	select {
	case <-p.in:
		if err = ctx.Err(); err == nil {
			return p.lease, nil, nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-g.e.closing:
		err = ErrClosed
	}
	g.mu.Lock()
	if last = at.refused; at.hold != nil { //mutant:gives-up-told-holds
		last = at.hold.refusal()
	}
	select {
	case <-p.in: // let in at the same moment: hand it on
		g.mu.Unlock()
		if p.lease != nil {
			p.lease.abandon() //mutant:waiter-left-handed-kept
		} else {
			g.leave(w.name) //mutant:gate-forgets-left-he
		}
	default:
		at.remove(p)
		g.look(at)
		g.mu.Unlock()
	}
	return nil, last, err
}

// look sees to it that the first in line does not wait for a hold that it will
// not be handed: then it goes in and asks the store for a place. g.mu is held.
func (g *gates) look(at *gate) {
	if at.hold == nil || at.first == nil {
		return
	}
	left := at.hold.handOver.until.Sub(g.e.now()) //mutant:handed-over-ever-too
	switch {
	case left <= 0 || !at.hold.suits(at.first.w): //mutant:nobody-asks-time-over
		at.hold = nil
		at.letIn()
	case at.armed: // for this hold or one before it
	case at.timer == nil:
		at.armed = true
		at.timer = time.AfterFunc(left, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			at.armed = false
			g.look(at)
		})
	default:
		at.armed = true
		at.timer.Reset(left)
	}
}

// settle is called by who was inside with what came of it: while a lease that
// may be handed on is held nobody is let in.
func (g *gates) settle(w *want, l *Lease) {
	if l == nil || !g.keep(w.name, l.hold, true) {
		g.leave(w.name)
	}
}

// keep has the hold handed on from now on, if it may be. It is held by who is
// inside, or by one who came past the gate: then not if there is a gate.
func (g *gates) keep(name string, h *hold, inside bool) bool {
	if h.handOver.left == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[name]
	if h.isOver() || at != nil && !inside {
		return false
	}
	if at == nil {
		at = &gate{}
		g.m[name] = at
	}
	at.hold, at.refused = h, nil
	g.look(at)
	return true
}

// handOn hands a hold that all its leases have left to the first in line, if
// its bounds allow that. Else, if it was the gate's, nobody is handed anything
// any more: the caller is inside, and leaves.
func (g *gates) handOn(h *hold) (done, inside bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[h.Name]
	if at == nil || at.hold != h {
		return false, false
	}
	if p := at.first; p != nil {
		if p.lease = g.e.sched.handOn(h, p.w); p.lease != nil {
			at.letIn()
			g.look(at)
			return true, false
		}
	}
	at.hold = nil //mutant:all-ask-bounds-reached
	return false, true
}

// drop lets in the first in line where it waits for a hold that is over.
func (g *gates) drop(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.m[h.Name]; at != nil && at.hold == h {
		at.hold = nil
		g.open(h.Name, at)
	}
}

// leave lets in the next, or forgets the gate.
func (g *gates) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open(name, g.m[name])
}

func (g *gates) open(name string, at *gate) {
	if at.first != nil {
		at.letIn()
		return
	}
	if at.timer != nil {
		at.timer.Stop()
	}
	delete(g.m, name) //mutant:gate-kept
}

// refuse notes how the store answered the one inside.
func (g *gates) refuse(name string, r *refused) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.m[name].refused = r
}

func (at *gate) letIn() {
	p := at.first //mutant:gate-lets-last-first
	at.remove(p)
	close(p.in)
}

func (at *gate) remove(p *passer) {
	if p.prev == nil {
		at.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		at.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}
