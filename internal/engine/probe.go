package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// This file lets tests of the API inspect or cause what callers cannot. Only tests use it.

// The bounds that tests of the API use.
const (
	Margin           = margin
	MostInside       = mostInside
	MostSent         = mostSent
	MostPolls        = mostPolls
	Batches          = batches
	Grace            = grace
	CloseTime        = closeTime
	NoNotifyFor      = noNotifyFor
	ResubscribeAfter = resubscribeAfter
	SilentFor        = silentFor
	EventKinds       = int(EventWaiting)
)

// Reasons for the end of a lease that was not released.
var (
	ErrTimeOver = errTimeOver
	ErrMaxHold  = errMaxHold
)

// A Probe gives tests access to the hold of a lease.
type Probe struct{ l *Lease }

// Probe returns the probe of the lease.
func (l *Lease) Probe() Probe { return Probe{l} }

// Hold returns the hold as the store knows it.
func (p Probe) Hold() store.Hold { return p.l.hold.Hold }

// Weight returns the weight of the lease now.
func (p Probe) Weight() int64 { return p.l.weight.Load() }

// Contexts returns how many contexts are kept for the lease.
func (p Probe) Contexts() int {
	p.l.hold.mu.Lock()
	defer p.l.hold.mu.Unlock()
	return len(p.l.joined)
}

// Forget drops the hold as if its process had died: it is not renewed, and no timer
// ends it.
func (p Probe) Forget() { p.l.hold.e.sched.remove(p.l.hold) }

// Leave does the first half of a Release, which ends the lease. It returns a function
// that does the second half.
func (p Probe) Leave() (give func() error) {
	h := p.l.hold
	h.leave(p.l)
	return func() error { return h.give(true) }
}

// HandOn calls meanwhile, and then hands the hold, whose lease was released, to the
// first in line. It reports whether that was allowed. It locks the local queues.
func (p Probe) HandOn(meanwhile func()) bool {
	h := p.l.hold
	g := &h.e.queues
	g.mu.Lock()
	defer g.mu.Unlock()
	meanwhile()
	at := g.m[h.Name]
	next := at.first
	if next.lease = h.e.sched.handOn(next.ctx, h, next.w); next.lease == nil {
		return false
	}
	at.remove(next)
	close(next.admitted)
	return true
}

// Lose ends the hold as if its time had passed.
func (p Probe) Lose() {
	p.Forget()
	p.l.hold.lose(errTimeOver)
}

// HandOnTo hands the hold, whose lease was released, to a claim of the target, and
// reports whether that was allowed.
func (p Probe) HandOnTo(w *Target) bool {
	return p.l.hold.e.sched.handOn(context.Background(), p.l.hold, w) != nil
}

// Options returns the Locker's options, with the defaults.
func (l *Locker) Options() Options { return l.s.Options }

// PositionTTL returns the TTL with which a queue position is asked for.
func (l *Locker) PositionTTL() time.Duration { return l.s.positionTTL }

// Waits returns how many claims of the process wait for the name.
func (l *Locker) Waits(name string) int {
	l.e.queues.mu.Lock()
	defer l.e.queues.mu.Unlock()
	return l.e.queues.waits(name)
}

// Waiters returns how many entries are kept for waiters, notified holds and leaders.
func (l *Locker) Waiters() int {
	l.e.queues.mu.Lock()
	defer l.e.queues.mu.Unlock()
	l.e.notifications.mu.Lock()
	defer l.e.notifications.mu.Unlock()
	l.e.leading.mu.Lock()
	defer l.e.leading.mu.Unlock()
	return len(l.e.queues.m) + len(l.e.queues.past) + len(l.e.notifications.waiting) + len(l.e.notifications.holds) + len(l.e.leading.m)
}

// Holds returns how many holds the scheduler has.
func (l *Locker) Holds() int {
	l.e.sched.mu.Lock()
	defer l.e.sched.mu.Unlock()
	return len(l.e.sched.holds)
}

// Refuse refuses new claims, as Close does when it begins.
func (l *Locker) Refuse() { l.e.refuse() }

// Subscribe subscribes to notifications, as the first waiter does.
func (l *Locker) Subscribe(ctx context.Context) { l.e.notifications.subscribe(ctx, l.s) }
