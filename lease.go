package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A Lease is what a successful claim gives: the name is ours until it is
// released or lost. It renews itself. It is lost at the latest when its time
// is over by our own clock, whatever the store is doing, and slightly before
// the store lets anybody else in.
//
// A Lease that is dropped without Release is renewed until MaxHold or
// [Locker.Close]. All methods are safe for concurrent use.
type Lease struct {
	e      *engine
	s      *settings
	hold   store.Hold
	doing  string
	endAt  clock.Instant // when MaxHold is over; 0: no bound
	weight int64

	valid atomic.Int64 // the deadline, an Instant; 0 once it is over

	// Guarded by the scheduler's lock.
	at       clock.Instant // when the scheduler has to look at it next
	deadline clock.Instant
	renewAt  clock.Instant
	retries  int           // unclear renewals in a row
	index    int           // in the heap; -1: not in it
	told     error         // the store's word that it is lost
	flight   chan struct{} // closed when the renewal under way has ended; nil: none is

	mu      sync.Mutex
	state   state
	why     error           // it is over; ErrLost or ErrReleased with the reason
	acked   bool            // Release was called after the loss
	lost    chan struct{}   // made by the first Lost
	base    context.Context // ends with the lease; made when needed
	cancel  context.CancelCauseFunc
	joined  map[context.Context]joined // those that have a parent to end with as well
	parent  context.Context            // of derived
	derived context.Context            // what Context gave last
}

type state int8

const (
	held state = iota
	released
	lost
)

// margin is how much sooner than the store, besides one percent, we take a
// lease to be over: for the clocks' own grain and a slow wake-up.
const margin = 2 * time.Millisecond

// deadlineOf is when a hold of ttl that counts from the instant is over for us.
func deadlineOf(from clock.Instant, ttl time.Duration) clock.Instant {
	return from.Add(ttl - ttl/100 - margin)
}

// Name is the name that is held.
func (l *Lease) Name() string { return l.hold.Name }

// ID is this claim's own name, as `holdfast ls` shows it.
func (l *Lease) ID() string { return l.hold.ID.String() }

// Token is the fencing token: larger than that of any conflicting hold before
// it, so a resource that remembers the largest it has seen can refuse whoever
// comes late. Positive. Readers or slots that overlap have distinct tokens in
// no promised order.
func (l *Lease) Token() int64 { return l.hold.Token }

// Valid reports whether the lease is held still. It reads the clocks itself:
// after the machine or this process was stopped it is right at once.
func (l *Lease) Valid() bool { return l.e.now() < clock.Instant(l.valid.Load()) }

// Deadline is when the lease is lost unless it is renewed. It moves with each
// renewal. Of a lease that is over it is in the past.
func (l *Lease) Deadline() time.Time {
	now := time.Now()
	if d := clock.Instant(l.valid.Load()); d != 0 {
		return now.Add(d.Sub(l.e.now()))
	}
	return now.Add(-time.Nanosecond)
}

// Lost returns a channel that is closed when the lease is lost. Release never
// closes it.
func (l *Lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan struct{})
		if l.state == lost {
			close(l.lost)
		}
	}
	return l.lost
}

// leaseKey is the key under which contexts have their leases.
type leaseKey struct{}

// leases are the leases that a context comes from, the innermost first.
type leases struct {
	lease *Lease
	outer *leases
}

// again reports whether the lease of ls has come before it in the list from
// first on: a context can come from one lease twice.
func (ls *leases) again(first *leases) bool {
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
	if ls, _ := ctx.Value(leaseKey{}).(*leases); ls != nil {
		return ls.lease
	}
	return nil
}

// Context returns a context that ends with parent or with the lease, with
// [context.Cause] matching ErrLost or ErrReleased, and that has the values of
// parent. It has no deadline but the parent's: the lease's own moves. Of a
// lease that is over it has ended already.
func (l *Lease) Context(parent context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Code in a loop asks for the same again and again.
	comparable := reflect.ValueOf(parent).Comparable()
	if comparable && l.derived != nil && l.parent == parent {
		return l.derived
	}
	outer, _ := parent.Value(leaseKey{}).(*leases)
	ctx := context.WithValue(l.join(parent), leaseKey{}, &leases{l, outer})
	if comparable {
		l.parent, l.derived = parent, ctx
	}
	return ctx
}

// join returns a context that ends with parent or with the lease: with the
// lease at once, before finish returns, and not on another goroutine. l.mu is
// held.
func (l *Lease) join(parent context.Context) context.Context {
	if parent.Done() == nil {
		if l.base == nil {
			l.base, l.cancel = context.WithCancelCause(context.Background())
			if l.state != held {
				l.cancel(l.errorf(l.why))
			}
		}
		return valuesOf{l.base, parent}
	}
	ctx, cancel := context.WithCancelCause(parent)
	if l.state != held {
		cancel(l.errorf(l.why))
		return ctx
	}
	if l.joined == nil {
		l.joined = map[context.Context]joined{}
	}
	forget := context.AfterFunc(ctx, func() { // nothing is kept of a parent that has ended
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.joined, ctx)
	})
	l.joined[ctx] = joined{cancel, forget}
	return ctx
}

// joined is a context that ends with its parent or with the lease.
type joined struct {
	cancel context.CancelCauseFunc
	forget func() bool // takes back what is done at its end
}

// valuesOf is a context with the values of another that never ends.
type valuesOf struct {
	context.Context
	values context.Context
}

func (c valuesOf) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// finish makes a held lease one that is over. It returns false if it was over
// before.
func (l *Lease) finish(to state, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != held {
		return false
	}
	l.valid.Store(0)
	l.state, l.why = to, why
	if l.cancel != nil {
		l.cancel(l.errorf(why))
	}
	for _, c := range l.joined {
		c.forget()
		c.cancel(l.errorf(why))
	}
	l.joined = nil
	l.parent, l.derived = nil, nil
	if to == lost && l.lost != nil {
		close(l.lost) // last: whoever sees this sees all of it
	}
	return true
}

// lose tells that the lease is lost. The scheduler has taken it out before.
func (l *Lease) lose(why error) {
	if l.finish(lost, why) {
		l.s.Logger.Error("holdfast: lease lost", l.attrs("err", why)...)
	}
}

// Release gives the name back and lets the next in. From its first moment
// Valid is false and the contexts have ended. It takes no context and is
// bounded: by a third of the TTL, five seconds at most, once a renewal that is
// under way has ended (where a driver does not heed its context while it reads,
// as go-redis does not, by its own timeouts if they are longer).
//
// It returns nil if the store has let go of the name, or had before the
// deadline; ErrLost if the lease was lost before (one that an operator broke is
// given back all the same, as the work has ended); ErrReleased if it was
// released before; and ErrUnavailable if it is not clear: then the name is free
// after the TTL at the latest. A later holder is never touched.
func (l *Lease) Release() error {
	if !l.e.enter() {
		l.e.close() // it is under way and gives back all: wait for it
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.errorf(l.why)
	}
	defer l.e.work.Done()
	if d := clock.Instant(l.valid.Load()); d != 0 && d <= l.e.now() {
		l.e.sched.remove(l) // by the clock: its timer is late
		l.lose(errTimeOver)
	}
	if !l.finish(released, ErrReleased) {
		return l.acknowledge()
	}
	return l.giveBack()
}

// acknowledge answers the release of a lease that is over. One that an operator
// broke stays in the way until it expires, as its owner may still be at work:
// who releases it says that he is not, and the next gets in.
func (l *Lease) acknowledge() error {
	l.mu.Lock()
	why, first := l.why, !l.acked
	l.acked = true
	l.mu.Unlock()
	if broken := (*store.LostError)(nil); errors.As(why, &broken) && first {
		l.sendRelease()
	}
	return l.errorf(why)
}

// sendRelease sends the release until it is clear what became of it.
func (l *Lease) sendRelease() error {
	return l.e.repeat(min(l.s.TTL/3, longestCall), nil, func(ctx context.Context) error {
		return l.e.store.Release(ctx, l.hold)
	})
}

// giveBack stops the renewing and releases.
func (l *Lease) giveBack() error {
	flight, deadline := l.e.sched.remove(l)
	if flight != nil {
		<-flight
	}
	if l.told != nil {
		return l.errorf(l.told) // there is nothing of ours to give back
	}
	err := l.sendRelease()
	if errors.Is(err, ErrLost) && l.e.now() < deadline {
		// Nobody could have taken it yet and no loss was told: our own
		// release, repeated by us or by the driver.
		err = nil
	}
	if err != nil {
		l.s.Logger.Warn("holdfast: release", l.attrs("err", err)...)
		return l.errorf(err)
	}
	l.debug("holdfast: released")
	return nil
}

var errTimeOver = fmt.Errorf("%w: its time ran out before a renewal was answered", ErrLost)

func (l *Lease) errorf(err error) error {
	return fmt.Errorf("%s %q on %s, token %d: %w", l.doing, l.hold.Name, l.e.desc.Store, l.hold.Token, err)
}

func (l *Lease) debug(msg string) {
	if l.s.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.s.Logger.Debug(msg, l.attrs()...)
	}
}

func (l *Lease) attrs(more ...any) []any {
	return append([]any{
		slog.String("name", l.hold.Name), slog.Any("id", l.hold.ID), slog.Int64("token", l.hold.Token),
		slog.String("store", l.e.desc.Store),
	}, more...)
}

// run is the second half of a Do: fn under the lease, then the release, also if
// fn panics or ends its goroutine.
func (l *Lease) run(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		switch rel := l.Release(); {
		case rel == nil || errors.Is(rel, ErrReleased): // or fn released it itself
		case err == nil:
			err = rel
		default:
			err = errors.Join(err, rel)
		}
	}()
	return fn(l.Context(ctx))
}
