package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// localQueues are the queues inside the process, one per name. Claims that fit
// together under the limit are admitted ("inside") and ask the store concurrently.
// The others wait in line, in order of arrival. While this process holds the name
// and may hand it on, all wait in line.
type localQueues struct {
	e    *engine
	mu   sync.Mutex
	m    map[string]*localQueue
	past map[string]*past
}

const (
	// mostInside is how many claims of one process for a name may have a position in
	// the store, or ask for one.
	mostInside = 64
	// mostSent is how many of those may have no position yet.
	mostSent = 16
)

// A localQueue exists while a claim is inside or in line, or while a hold of the name
// may be handed on or is being given back. All its claims have the same limit. A claim
// with another limit bypasses it, and the store decides whether that is a mistake: see
// past.
type localQueue struct {
	name        string
	limit       int64
	inside      []*waiter     // in order of arrival
	weight      int64         // of all inside together, at most the limit
	sent        int           // how many of those inside have no position yet
	first, last *waiter       // in line
	refused     *refused      // the store's last answer, for those in line
	met         *error        // the failure of the last claim to leave, if no claim was answered since
	from        clock.Instant // when that claim's first unanswered ask began
	hold        *hold         // to be handed to the first in line when it is released
	timer       *time.Timer   // admits the first in line when the hold may no longer be handed on
	armed       clock.Instant // when the timer fires; 0: not set
	leaving     bool          // the hold is being given back: no waiter is admitted
	queued      bool          // the last claim to be answered had to wait
	asking      atomic.Int32  // how many in line ask the holders to give up
	line        int           // how many are in line
	lineWeight  int64         // of all in line together
	own         waiter        // the first to come; most local queues have no other
	alone       [1]*waiter    // the initial array of inside
}

// A waiter is a claim at a localQueue: first in line, then inside.
type waiter struct {
	w          *Target
	ctx        context.Context // of the caller
	queue      *localQueue
	admitted   chan struct{} // closed when it is admitted, or has lease or err
	lease      *Lease        // the name was handed to it, so it need not ask
	err        error         // the store's error, if those inside met an outage while it was in line
	outage     chan struct{} // closed when another admitted waiter has met an outage; nil: it was the first to come, and cannot leave
	met        error         // the error that the other waiter met; to read after outage
	prev, next *waiter       // in line

	away    trouble                 // the failures of its asks
	refused *refused                // the store's last answer to those ahead of it
	sent    bool                    // inside, without a position yet
	waits   bool                    // it is or was in line, or was refused: it counts for MaxWaiting
	told    bool                    // the store has refused it
	woken   bool                    // it was woken since it was last refused
	wake    chan store.Notification // wakes its request, once that was refused
}

// A refused is an answer of the store, with the time it came.
type refused struct {
	answer store.Answer
	when   time.Time
}

func (g *localQueues) init(e *engine) {
	g.e, g.m, g.past = e, map[string]*localQueue{}, map[string]*past{}
}

// enter waits until the claim is admitted, and returns its waiter; or until the name
// is handed to it, and returns the lease. If all results are nil, the claim must
// bypass the local queue. The claim is inside only if a waiter is returned. errOnlyTry
// means that the claim may not wait, but that a try may be granted.
func (g *localQueues) enter(ctx context.Context, w *Target, began clock.Instant) (p *waiter, l *Lease, err error) {
	g.mu.Lock()
	at := g.m[w.name]
	if g.full(w) { //mutant:any-number-waits
		ahead, err := g.ahead(w.name), error(errOnlyTry)
		if !g.mayFit(w) {
			err = w.tooMany(&ahead)
		}
		g.mu.Unlock()
		return nil, nil, err
	}
	switch {
	case at == nil:
		at = &localQueue{name: w.name, limit: w.limit}
		g.m[w.name] = at
		at.own = waiter{w: w, queue: at}
		if ctx.Done() != nil && !g.e.desc.InProcess {
			at.own.outage = make(chan struct{})
		}
		at.inside = at.alone[:0]
		at.admit(&at.own)
		g.mu.Unlock()
		return &at.own, nil, nil
	case at.limit != w.limit: //mutant:another-limit-in-line
		g.mu.Unlock()
		return nil, nil, nil
	}
	var ahead refused
	if w.l.s.Observer != nil {
		ahead = g.ahead(w.name)
	}
	p = &waiter{w: w, ctx: ctx, queue: at, admitted: make(chan struct{}), outage: make(chan struct{}), prev: at.last}
	if at.last == nil {
		at.first = p
	} else {
		at.last.next = p
	}
	at.last = p
	at.line++
	at.lineWeight += w.weight
	if w.l.s.AskToGiveUp != "" {
		at.asking.Add(1)
	}
	g.admitNext(at)
	inLine := at.last == p
	p.waits = inLine //mutant:who-was-in-line-counts-anew
	if inLine && w.l.s.AskToGiveUp != "" {
		at.askAgain()
	}
	g.mu.Unlock()
	if inLine {
		w.waiting(&values{ctx}, store.ID{}, began, &ahead.answer, ahead.when)
	}

	select {
	case <-p.admitted:
		if err = ctx.Err(); err == nil && p.err == nil {
			if p.lease != nil {
				return nil, p.lease, nil
			}
			return p, nil, nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-g.e.closing:
		err = store.ErrClosed
	}
	return nil, nil, g.giveUp(p, err)
}

// giveUp takes out a claim whose wait has ended, and returns its error. ended is the
// error that ended the wait; nil means p.err.
func (g *localQueues) giveUp(p *waiter, ended error) error {
	at := p.queue
	g.mu.Lock()
	last, away := at.refused, at.trouble(g.e)
	if at.hold != nil { //mutant:gives-up-told-holds
		last = at.hold.refusal()
	}
	select {
	case <-p.admitted: // admitted at the same moment
		g.mu.Unlock()
		switch {
		case p.err != nil:
			away = p.err
		case p.lease != nil:
			p.lease.abandon() //mutant:waiter-left-handed-kept
		default:
			g.leave(p, false, nil) //mutant:gate-forgets-left-he
		}
	default:
		at.remove(p)
		g.admitNext(at)
		g.mu.Unlock()
	}
	if ended == nil {
		return p.w.errorf(indeterminate(p.err))
	}
	return p.w.gaveUp(ended, last, away)
}

// trouble returns why the asks of those inside are not answered, or nil.
func (at *localQueue) trouble(e *engine) error {
	for _, p := range at.inside {
		if err := p.away.now(e); err != nil {
			return err
		}
	}
	return nil
}

// admitNext admits the waiters in line that may ask the store now, in order. It
// deletes a local queue that is no longer in use. g.mu is held.
func (g *localQueues) admitNext(at *localQueue) {
	for at.first != nil && !g.waitsForHold(at) && at.hasRoom(at.first.w, g.e.notifications.ready()) {
		p := at.first //mutant:gate-lets-last-first
		at.remove(p)
		at.admit(p)
		close(p.admitted)
	}
	if at.first != nil || len(at.inside) > 0 || at.hold != nil || at.leaving || g.m[at.name] != at {
		return
	}
	if at.timer != nil {
		at.timer.Stop()
	}
	delete(g.m, at.name) //mutant:gate-kept
}

// hasRoom reports whether the target may be admitted in addition to those inside. Once
// a claim had to wait in the store, the next ones are sent one after another, so that
// their positions there are in order of arrival, until one is granted at once. Readers
// are admitted together, whatever their order. Without notifications (woken is false),
// all inside must have the same weight, as one of them polls for all: room for a
// reader does not mean room for an upgradeable lock, or show which is ahead in the store.
func (at *localQueue) hasRoom(w *Target, woken bool) bool {
	switch {
	case at.leaving:
		return false
	case len(at.inside) == 0:
		return true
	case !woken && at.inside[0].w.weight != w.weight: //mutant:one-weight-inside
		return false
	case at.weight+w.weight > at.limit || len(at.inside) >= mostInside || at.sent >= mostSent: //mutant:claims-that-fit
		return false
	}
	return at.sent == 0 || !at.queued || at.limit == store.Full //mutant:places-in-order
}

func (at *localQueue) admit(p *waiter) {
	p.sent = true
	p.away.newest.Store(at.met) //mutant:cause-leaves-with-one
	p.away.from = at.from
	p.refused = at.refused //mutant:refusal-stays-at-gate
	at.inside = append(at.inside, p)
	at.weight += p.w.weight
	at.sent++
}

// answered notes that the store has refused the claim, which has a position there if
// queued is set. wake wakes its request. asked is the reason that its ask gave to the
// holders.
func (g *localQueues) answered(p *waiter, r *refused, queued bool, wake chan store.Notification, asked string) {
	if p == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p.queue.refused, p.queue.met, p.queue.from = r, nil, 0
	if p.met != nil { // of a waiter that noticed its outage after this answer had come //mutant:outage-that-it-has-outlived
		p.met, p.outage = nil, make(chan struct{})
	}
	p.woken, p.wake = false, wake
	if queued && p.sent {
		p.sent = false
		p.queue.sent--
		p.queue.queued = true
		g.admitNext(p.queue)
	}
	if wake != nil && asked == "" && p.queue.asking.Load() > 0 && p.queue.asksFor(p) != "" {
		put(wake, store.Notification{}) // a waiter with a reason has joined the line meanwhile //mutant:came-while-asked
	}
}

// leads reports whether the claim is the one that polls for all inside while there are
// no notifications. All inside have the same weight then, as notifications never stop
// once they have begun.
func (g *localQueues) leads(p *waiter) bool {
	if p == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(p.queue.inside) > 0 && p.queue.inside[0] == p
}

// settle takes the result of a waiter that was admitted. While a lease that may be
// handed on is held, no other claim is admitted. away is the store's error if an outage
// ended the wait: then all in line fail too.
func (g *localQueues) settle(p *waiter, w *Target, l *Lease, away error) {
	if l != nil && g.keep(w, l.hold, p) || p == nil {
		return
	}
	g.leave(p, l != nil, away)
}

// keep registers the hold to be handed on, if that is allowed, and reports whether it
// did. The hold belongs to p, which is inside. A nil p means that its claim bypassed
// the local queue: then the hold is not handed on if there is a local queue.
func (g *localQueues) keep(w *Target, h *hold, p *waiter) bool {
	if h.handOver.until == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.m[w.name]
	if h.isOver() || at != nil && p == nil {
		return false
	}
	if at == nil {
		at = &localQueue{name: w.name, limit: w.limit}
		g.m[w.name] = at
	} else {
		at.goOut(p)
	}
	at.hold, at.refused, at.from = h, nil, 0
	g.admitNext(at)
	return true
}

// leave takes out a claim that was inside, and admits the next. Without notifications
// it wakes others inside to ask: two if the claim was granted; otherwise one, which
// polls in place of the claim.
func (g *localQueues) leave(p *waiter, granted bool, away error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := p.queue
	if granted && p.sent {
		at.queued = false
	}
	at.goOut(p)
	at.met, at.from = nil, p.away.from
	if err := p.away.now(g.e); err != nil {
		met := err // a copy: err itself would be on the heap in every call
		at.met = &met
	}
	if away != nil {
		at.fail(away)
		for _, q := range at.inside {
			if q.sent && q.outage != nil && q.met == nil { //mutant:inside-one-after-another
				q.met = away
				close(q.outage)
			}
		}
	}
	if len(at.inside) > 0 && !g.e.notifications.ready() {
		n := 1
		if granted {
			n = 2
		}
		for _, q := range at.inside {
			if n > 0 && q.wake != nil && !q.woken { //mutant:nobody-told-one-is-in
				q.woken = true
				put(q.wake, store.Notification{})
				n--
			}
		}
	}
	g.admitNext(at)
}

// fail ends the wait of all in line with the error.
func (g *localQueues) fail(at *localQueue, away error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at.fail(away)
}

// fail is localQueues.fail with g.mu held.
func (at *localQueue) fail(away error) {
	for q := at.first; q != nil; q = at.first { //mutant:outage-one-after-another
		at.remove(q)
		q.err = away
		close(q.admitted)
	}
}

func (at *localQueue) goOut(p *waiter) {
	i := slices.Index(at.inside, p)
	at.inside = slices.Delete(at.inside, i, i+1)
	at.weight -= p.w.weight
	if p.sent {
		p.sent = false
		at.sent--
	}
}

func (at *localQueue) remove(p *waiter) {
	at.line--
	at.lineWeight -= p.w.weight
	if p.w.l.s.AskToGiveUp != "" {
		at.asking.Add(-1)
	}
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
