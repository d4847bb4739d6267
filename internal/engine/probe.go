package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// What tests of the API look into or bring about that no caller can. Nothing
// else uses it.

// The bounds that tests of the API go by.
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

// Why a lease that ended by itself is over.
var (
	ErrTimeOver = errTimeOver
	ErrMaxHold  = errMaxHold
)

// A Probe is of the hold of a lease.
type Probe struct{ l *Lease }

// Probe looks into the lease.
func (l *Lease) Probe() Probe { return Probe{l} }

// Hold is what the store knows of the hold.
func (p Probe) Hold() store.Hold { return p.l.hold.Hold }

// Weight is what the lease weighs now.
func (p Probe) Weight() int64 { return p.l.weight.Load() }

// Contexts is how many contexts are kept for the lease.
func (p Probe) Contexts() int {
	p.l.hold.mu.Lock()
	defer p.l.hold.mu.Unlock()
	return len(p.l.joined)
}

// Forget drops the hold as if its process had died: nobody renews it, and no
// timer ends it.
func (p Probe) Forget() { p.l.hold.e.sched.remove(p.l.hold) }

// Leave is the first half of a Release: the lease is over. What it returns is
// the second.
func (p Probe) Leave() (give func() error) {
	h := p.l.hold
	h.leave(p.l)
	return func() error { return h.give(true) }
}

// HandOn hands the hold, which its lease has left, to the first in line, who
// does not see it before meanwhile has returned. It says whether there was one.
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

// Lose loses the hold, whose time is over.
func (p Probe) Lose() {
	p.Forget()
	p.l.hold.lose(errTimeOver)
}

// HandOnTo hands the hold, which its lease has left, to a claim of the target, and
// reports whether that is allowed.
func (p Probe) HandOnTo(w *Target) bool {
	return p.l.hold.e.sched.handOn(context.Background(), p.l.hold, w) != nil
}

// Options are the Locker's, with the defaults.
func (l *Locker) Options() Options { return l.s.Options }

// PositionTTL is for how long a position in the queue is asked for at a time.
func (l *Locker) PositionTTL() time.Duration { return l.s.positionTTL }

// Waits is how many of the process wait for the name.
func (l *Locker) Waits(name string) int {
	l.e.queues.mu.Lock()
	defer l.e.queues.mu.Unlock()
	return l.e.queues.waits(name)
}

// Waiters is how much is kept for those who wait, or lead.
func (l *Locker) Waiters() int {
	l.e.queues.mu.Lock()
	defer l.e.queues.mu.Unlock()
	l.e.notifications.mu.Lock()
	defer l.e.notifications.mu.Unlock()
	l.e.leading.mu.Lock()
	defer l.e.leading.mu.Unlock()
	return len(l.e.queues.m) + len(l.e.queues.past) + len(l.e.notifications.waiting) + len(l.e.notifications.holds) + len(l.e.leading.m)
}

// Holds is how many holds are renewed.
func (l *Locker) Holds() int {
	l.e.sched.mu.Lock()
	defer l.e.sched.mu.Unlock()
	return len(l.e.sched.holds)
}

// Refuse refuses new claims, as a Close that begins.
func (l *Locker) Refuse() { l.e.refuse() }

// Subscribe does what the first does who has to wait.
func (l *Locker) Subscribe(ctx context.Context) { l.e.notifications.subscribe(ctx, l.s) }
