package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Lease is what a granted claim gives its caller; a hold can have several. All
// methods are safe for concurrent use. Package holdfast documents what its
// methods of the same names promise.
type Lease struct {
	hold   *hold
	doing  string
	token  int64
	values values       // of its claim's context
	weight atomic.Int64 // as requested or upgraded; the hold of a lease that re-entered may weigh more

	over atomic.Bool // it is released or lost

	// Guarded by the hold's lock.
	next    *Lease // the next lease of the hold that has not ended
	state   state
	why     error                      // why it has ended; store.ErrLost or store.ErrReleased with the reason
	left    bool                       // Release was called
	leads   bool                       // it is in engine.leading
	lost    chan struct{}              // made by the first Lost
	onLost  []func()                   // called when it is lost
	joined  map[<-chan struct{}]joined // by the parents' Done; the key of parents that never end is nil
	parent  context.Context            // of derived
	derived context.Context            // returned by the last call of Context
}

type state int8

const (
	held state = iota
	released
	lost
)

// Name returns the name that is held.
func (l *Lease) Name() string { return l.hold.Name }

// ID returns the id of the claim.
func (l *Lease) ID() string { return l.hold.ID.String() }

// Token returns the fencing token, or 0 on a store that has none.
func (l *Lease) Token() int64 {
	if _, lacks := l.hold.e.desc.Lacks[store.PromiseTokens]; lacks { //mutant:token-none-told
		return 0
	}
	if c := l.hold.changer; c != nil {
		return max(l.token, c.upgradeToken.Load()) //mutant:upgrade-keeps-token
	}
	return l.token
}

// Valid reports whether the lease is still held.
func (l *Lease) Valid() bool { return !l.over.Load() && l.hold.left() > 0 }

// Deadline returns when the lease is lost unless it is renewed; zero on a store
// without deadlines.
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

// whenLost calls f when the lease is lost, or now if it is lost already. f is called
// with the hold's lock held, and must not block.
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

// finish ends a held lease. The hold's lock is held.
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
		close(l.lost) // last: a caller that sees it closed sees all other effects
	}
}

// Release ends the lease, and gives the hold back if it was its last lease.
func (l *Lease) Release() error {
	h := l.hold
	if !h.e.enter() {
		h.e.close() // wait for the Close that is under way: it gives back all holds
		h.mu.Lock()
		defer h.mu.Unlock()
		return l.errorf(l.why)
	}
	defer h.e.work.Done()
	return l.release()
}

// release is Release for a caller that Close waits for.
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

// Does notes that the function of a Do begins under the lease: Shutdown waits
// until Did is called.
func (l *Lease) Does() { l.hold.e.does() }

// Did ends what Does began.
func (l *Lease) Did() { l.hold.e.did() }

// Shares reports who may hold the name at the same time as the lease: holders of
// other slots (slots), nobody (alone), or readers (neither).
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
