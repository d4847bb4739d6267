package holdfast

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Lease is what a successful claim gives: the name is ours until it is
// released or lost. It renews itself, unless Options.NoRenew. It is lost at the
// latest when its time is over by our own clock, whatever the store is doing,
// and slightly before the store lets anybody else in.
//
// On a store without deadlines (see Deadline) that is not so: there a loss can
// only be noticed, once the store has let go of the name, and somebody else may
// have it already.
//
// A hold that was entered again (Options.Reentrant) has several leases. Each is
// over for itself once it is released: then it is not Valid, and its contexts
// have ended with ErrReleased, while the others go on. All of them are lost
// together. The name is given back when the last of them is released, in
// whatever order that comes.
//
// A Lease that is dropped without Release is renewed until MaxHold or
// [Locker.Close]. All methods are safe for concurrent use.
type Lease struct {
	hold   *hold
	doing  string
	token  int64
	weight atomic.Int64 // what was asked for, or an upgrade; the hold of a lease that re-entered may weigh more

	over atomic.Bool // it is released or lost

	// Guarded by the hold's lock.
	next    *Lease // of those of the hold that are not over
	state   state
	why     error                      // it is over; ErrLost or ErrReleased with the reason
	left    bool                       // Release was called
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

// ID is this claim's own name, as `holdfast ls` shows it.
func (l *Lease) ID() string { return l.hold.ID.String() }

// Token is the fencing token: larger than that of any conflicting hold before
// it, so a resource that remembers the largest it has seen can refuse whoever
// comes late. Positive. Readers or slots that overlap have distinct tokens in
// no promised order. An upgrade makes it larger. It is 0 on a store that gives
// no tokens.
func (l *Lease) Token() int64 {
	if _, lacks := l.hold.e.desc.Lacks[store.PromiseTokens]; lacks { //mutant:token-none-told
		return 0
	}
	if c := l.hold.changer; c != nil {
		return max(l.token, c.fence.Load()) //mutant:upgrade-keeps-token
	}
	return l.token
}

// Valid reports whether the lease is held still. It reads the clocks itself:
// after the machine or this process was stopped it is right at once. On a store
// without deadlines it is true until the loss was noticed.
func (l *Lease) Valid() bool { return !l.over.Load() && l.hold.left() > 0 }

// Deadline is when the lease is lost unless it is renewed. It moves with each
// renewal. Of a lease that is over it is in the past.
//
// It is the zero Time on a store without deadlines, as one that keeps locks in a
// database session: there a lease lasts until it is released, or until the store
// tells that it is lost.
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

// leaseKey is the key under which contexts have their leases.
type leaseKey struct{}

// A chain is the leases that a context comes from, the innermost first.
type chain struct {
	lease *Lease
	outer *chain
}

// chainOf is the chain of ctx; nil if it comes from no lease.
func chainOf(ctx context.Context) *chain {
	ls, _ := ctx.Value(leaseKey{}).(*chain)
	return ls
}

// again reports whether the lease of ls has come before it in the list from
// first on: a context can come from one lease twice.
func (ls *chain) again(first *chain) bool {
	for ; first != ls; first = first.outer {
		if first.lease == ls.lease {
			return true
		}
	}
	return false
}

// LeaseFrom returns the innermost lease that ctx comes from, by
// [Lease.Context] or by the function of a Do; nil if there is none.
func LeaseFrom(ctx context.Context) *Lease {
	if ls := chainOf(ctx); ls != nil {
		return ls.lease
	}
	return nil
}

// LeaseOf returns the innermost lease of the name that ctx comes from; nil if
// there is none. It tells apart the leases of several names.
func LeaseOf(ctx context.Context, name string) *Lease {
	ls := chainOf(ctx)
	for ; ls != nil; ls = ls.outer {
		if ls.lease.Name() == name {
			return ls.lease
		}
	}
	return nil
}

// Context returns a context that ends with parent or with the lease, with
// [context.Cause] matching ErrLost or ErrReleased, and that has the values of
// parent. It has no deadline but the parent's: the lease's own moves. Of a
// lease that is over it has ended already.
func (l *Lease) Context(parent context.Context) context.Context {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	// Code in a loop asks for the same again and again.
	comparable := reflect.ValueOf(parent).Comparable()
	if comparable && l.derived != nil && l.parent == parent {
		return l.derived
	}
	ctx := &leaseContext{Context: parent, end: l.join(parent), leases: chain{l, chainOf(parent)}}
	if comparable {
		l.parent, l.derived = parent, ctx
	}
	return ctx
}

// join returns a context that ends with parent or with the lease: with the
// lease at once, before finish returns, and not on another goroutine. It is the
// same for all parents that end together, so that code which makes a context of
// each request or span leaves nothing here. Its values are of no use. The hold's
// lock is held.
func (l *Lease) join(parent context.Context) context.Context {
	done := parent.Done()
	if done == nil {
		parent = context.Background()
	}
	if l.state == held && parent.Err() == nil {
		if j, ok := l.joined[done]; ok { //mutant:context-each-call
			return j.ctx
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	switch {
	case l.state != held:
		cancel(l.errorf(l.why))
		return ctx
	case parent.Err() != nil:
		cancel(context.Cause(parent))
		return ctx
	case l.joined == nil:
		l.joined = map[<-chan struct{}]joined{}
	}
	forget := context.AfterFunc(ctx, func() { // nothing is kept of a parent that has ended
		l.hold.mu.Lock()
		defer l.hold.mu.Unlock()
		delete(l.joined, done) //mutant:ended-parents-kept
	})
	l.joined[done] = joined{ctx, cancel, forget}
	return ctx
}

// joined is a context that ends with its parents or with the lease.
type joined struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	forget func() bool // takes back what is done at its end
}

// A leaseContext is what [Lease.Context] returns: all of its parent but the end.
type leaseContext struct {
	context.Context // the parent
	end             context.Context
	leases          chain
}

func (c *leaseContext) Done() <-chan struct{} { return c.end.Done() }
func (c *leaseContext) Err() error            { return c.end.Err() }

func (c *leaseContext) Value(key any) any {
	switch {
	case key == leaseKey{}:
		return &c.leases
	case ending.Value(key) != nil:
		return c.end.Value(key) //mutant:cause-of-parent
	}
	return c.Context.Value(key)
}

// ending has the values that package context keeps for the end of a context,
// and no others: context.Cause finds the cause by them, and a child the context
// with which it ends.
var ending, _ = context.WithCancel(context.Background())

// finish makes a held lease one that is over. The hold's lock is held.
func (l *Lease) finish(to state, why error) {
	l.over.Store(true) //mutant:valid-until-release-answered
	l.state, l.why = to, why
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

// Release gives the name back and lets the next in. From its first moment
// Valid is false and the contexts have ended. It takes no context and is
// bounded: by a third of the TTL, five seconds at most, once a renewal that is
// under way has ended (where a driver does not heed its context while it reads,
// as go-redis does not, by its own timeouts if they are longer).
//
// While other leases of the same hold are held (Options.Reentrant) it ends this
// one alone, sends nothing, and returns nil: the name stays taken. (If this one
// alone of them was upgraded it is a Downgrade.)
//
// It returns nil if the name was handed on inside the process (see [HandOver]),
// or if the store has let go of it, or had before the deadline; ErrLost if the
// lease was lost before (one that an operator broke is given back all the same,
// as the work has ended); ErrReleased if it was released before; and
// ErrUnavailable if it is not clear: then the name is free after the TTL at the
// latest. A later holder is never touched.
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
	h.lookAtTheClock()
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

// run is the second half of a Do: fn under the lease, then the release, also if
// fn panics or ends its goroutine.
func (l *Lease) run(ctx context.Context, fn func(context.Context) error) error {
	release := func() error {
		if err := l.Release(); !errors.Is(err, ErrReleased) {
			return err
		}
		return nil // fn released it itself
	}
	l.hold.e.does()
	defer l.hold.e.did()
	return thenRelease(release, func() error { return fn(l.Context(ctx)) })
}
