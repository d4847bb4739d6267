package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Lease is what a granted claim gives its caller: one of those that a hold
// has. All methods are safe for concurrent use; what they promise is said at
// those of the root package, which are these.
type Lease struct {
	hold   *hold
	doing  string
	token  int64
	values values       // of the context of its claim
	weight atomic.Int64 // what was asked for, or an upgrade; the hold of a lease that re-entered may weigh more

	over atomic.Bool // it is released or lost

	// Guarded by the hold's lock.
	next    *Lease // of those of the hold that are not over
	state   state
	why     error                      // it is over; store.ErrLost or store.ErrReleased with the reason
	left    bool                       // Release was called
	leads   bool                       // it is in engine.leading
	lost    chan struct{}              // made by the first Lost
	onLost  []func()                   // called when it is lost
	joined  map[<-chan struct{}]joined // by the Done of the parents; nil: of those that never end
	parent  context.Context            // of derived
	derived context.Context            // what Context gave last
}

type state int8

const (
	held state = iota
	released
	lost
)

// Name is the name that is held.
func (l *Lease) Name() string { return l.hold.Name }

// ID is this claim's own name.
func (l *Lease) ID() string { return l.hold.ID.String() }

// Token is the fencing token, or 0 on a store that gives none.
func (l *Lease) Token() int64 {
	if _, lacks := l.hold.e.desc.Lacks[store.PromiseTokens]; lacks { //mutant:token-none-told
		return 0
	}
	if c := l.hold.changer; c != nil {
		return max(l.token, c.upgradeToken.Load()) //mutant:upgrade-keeps-token
	}
	return l.token
}

// Valid reports whether the lease is held still.
func (l *Lease) Valid() bool { return !l.over.Load() && l.hold.left() > 0 }

// Deadline is when the lease is lost unless it is renewed; zero where there is
// no such time.
func (l *Lease) Deadline() time.Time {
	if l.hold.e.endless { //mutant:deadline-told-where-none
		return time.Time{}
	}
	if l.over.Load() {
		return time.Now().Add(-time.Nanosecond)
	}
	return time.Now().Add(l.hold.left())
}

// Lost returns a channel that is closed when the lease is lost. Release never
// closes it.
func (l *Lease) Lost() <-chan struct{} {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan struct{})
		if l.state == lost {
			close(l.lost)
		}
	}
	return l.lost
}

// whenLost has f called when the lease is lost, or now if it was. f is called
// with the hold's lock held, and does not block.
func (l *Lease) whenLost(f func()) {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	switch l.state {
	case held:
		l.onLost = append(l.onLost, f)
	case lost: //mutant:lost-asked-late
		f()
	}
}

// finish makes a held lease one that is over. The hold's lock is held.
func (l *Lease) finish(to state, why error) {
	l.over.Store(true) //mutant:valid-until-release-answered
	l.state, l.why = to, why
	if l.leads {
		l.hold.e.leading.end(l) //mutant:leads-for-ever
	}
	for _, c := range l.joined {
		c.forget()
		c.cancel(l.errorf(why)) //mutant:contexts-end-some-time
	}
	l.joined = nil
	l.parent, l.derived = nil, nil
	if to == lost { //mutant:release-told-loss
		for _, f := range l.onLost {
			f()
		}
	}
	l.onLost = nil
	if to == lost && l.lost != nil {
		close(l.lost) // last: whoever sees this sees all of it
	}
}

// Release ends the lease, and gives the hold back if it was the last one of it.
func (l *Lease) Release() error {
	h := l.hold
	if !h.e.enter() {
		h.e.close() // it is under way and gives back all: wait for it
		h.mu.Lock()
		defer h.mu.Unlock()
		return l.errorf(l.why)
	}
	defer h.e.work.Done()
	return l.release()
}

// release is Release while Close waits for its caller.
func (l *Lease) release() error {
	h := l.hold
	h.checkClock()
	last, why := h.leave(l)
	switch {
	case why != nil:
		if last { //mutant:first-release-gives-broken
			h.acknowledge(why)
		}
		return l.errorf(why)
	case !last:
		if h.changer != nil {
			return h.changer.reduced(l) //mutant:hold-stays-upgraded-nobody
		}
		return nil
	}
	if err := h.give(true); err != nil {
		return l.errorf(err)
	}
	return nil
}

func (l *Lease) errorf(err error) error {
	return fmt.Errorf("%s %q on %s, token %d: %w", l.doing, l.hold.Name, l.hold.e.desc.Store, l.Token(), err)
}

// Does begins the function of a Do under the lease: Shutdown waits until Did is
// called.
func (l *Lease) Does() { l.hold.e.does() }

// Did ends what Does began.
func (l *Lease) Did() { l.hold.e.did() }

// Shares says beside whom the lease has its name: others with slots, or nobody,
// or, if it is neither, readers.
func (l *Lease) Shares() (slots, alone bool) {
	h := l.hold
	alone = h.first.weight.Load() == store.Full //mutant:read-lease-under-write
	if h.changer != nil {
		h.mu.Lock()
		alone = h.changer.full //mutant:upgraded-lease-alone
		h.mu.Unlock()
	}
	return h.limit != store.Full, alone
}
