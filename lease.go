package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Lease is the result of a successful claim: the caller has the name until the lease
// is released or lost. It renews itself, unless Options.NoRenew is set. It is lost at
// its Deadline at the latest, by this process's own clock, even if the store cannot be
// reached. That is slightly before the store can grant the name to anyone else.
//
// On a store without deadlines (see [Lease.Deadline]) a loss can only be noticed after
// the store has freed the name, and another process may have it already.
//
// A hold that was entered again (Options.Reentrant) has several leases. One that is
// released ends alone: it is not Valid, and its contexts have ended with ErrReleased,
// while the others go on. All of them are lost together. The name is given back when
// the last of them is released, whatever the order.
//
// A Lease that is dropped without Release is renewed until MaxHold or
// [Locker.Close]. All methods are safe for concurrent use.
type Lease engine.Lease

// engine returns the lease as the engine's type.
func (l *Lease) engine() *engine.Lease { return (*engine.Lease)(l) }

// Name returns the name that is held.
func (l *Lease) Name() string { return l.engine().Name() }

// ID returns the id of the claim, 32 hexadecimal digits, as [Holder] and `holdfast ls`
// show it. It is unique.
func (l *Lease) ID() string { return l.engine().ID() }

// Token is the fencing token: larger than that of any conflicting hold before
// it, so a resource that remembers the largest token that it has seen can refuse late
// writes. It is positive, or 0 on a store that gives no tokens. Readers or slots
// that overlap have distinct tokens in no promised order. An upgrade makes it larger.
func (l *Lease) Token() int64 { return l.engine().Token() }

// Valid reports whether the lease is still held. It reads the clocks itself:
// after the machine or this process was stopped it is right at once. On a store
// without deadlines it is true until the loss was noticed.
func (l *Lease) Valid() bool { return l.engine().Valid() }

// Deadline is when the lease is lost unless it is renewed. It moves with each
// renewal. For a lease that has ended it is in the past.
//
// It is the zero Time on a store without deadlines, such as one that keeps locks
// in a database session: there a lease lasts until it is released, or until the
// store reports its loss.
func (l *Lease) Deadline() time.Time { return l.engine().Deadline() }

// Lost returns a channel that is closed when the lease is lost. Release never
// closes it.
func (l *Lease) Lost() <-chan struct{} { return l.engine().Lost() }

// AskedToGiveUp returns a channel that is closed once a waiter for the name, or a pending upgrade of another
// hold of it, asks the holders to give up ([Options.AskToGiveUp]). The holder gives the name up by releasing the
// lease, or goes on. After the last such request has ended, the next call returns an open channel.
//
// If the store has notifications, the first call on a lease subscribes to them. Otherwise a request arrives with
// the next renewal: after a third of the TTL, unless Options.RenewEvery says otherwise, and under
// Options.NoRenew with the next [Lease.Renew]. On a store that cannot pass requests on, and of a lease that has
// ended, the channel stays open.
func (l *Lease) AskedToGiveUp() <-chan struct{} { return l.engine().AskedToGiveUp() }

// GiveUpReason is why the holder is asked to give up: the first request's [Options.AskToGiveUp], as the newest
// renewal returned it. An upgrade comes before all waiters. Empty if there is no request.
func (l *Lease) GiveUpReason() string { return l.engine().GiveUpReason() }

// SetNote replaces the note of the owner ([Options.Note]) of the hold, and so of all its leases, until it is released
// or handed over inside the process. For example, it says what a leader is doing. It does not wait: the store gets it
// with a renewal that is sent at once, or, under Options.NoRenew, with the next [Lease.Renew].
//
// Errors: ErrInvalid of a note over 100 bytes, ErrLost or ErrReleased if the lease
// has ended, and ErrUnsupported on a store without deadlines.
func (l *Lease) SetNote(note string) error { return l.engine().SetNote(note) }

// LeaseFrom returns the innermost lease that ctx comes from, by
// [Lease.Context] or by the function of a Do; nil if there is none.
func LeaseFrom(ctx context.Context) *Lease { return (*Lease)(engine.LeaseFrom(ctx)) }

// LeaseOf returns the innermost lease of the name that ctx comes from; nil if
// there is none. Use it where a context comes from the leases of several names.
func LeaseOf(ctx context.Context, name string) *Lease { return (*Lease)(engine.LeaseOf(ctx, name)) }

// Context returns a context that ends with parent or with the lease, with
// [context.Cause] matching ErrLost or ErrReleased, and that has the values of
// parent. It has no deadline but the parent's: the lease's own moves. For a
// lease that has ended it has ended already.
func (l *Lease) Context(parent context.Context) context.Context { return l.engine().Context(parent) }

// Release gives the name back, so that the next waiter is granted it. From its first moment
// Valid is false and the contexts have ended. It takes no context and is bounded: by a
// third of the TTL, five seconds at most, once a renewal that is under way has ended (a
// driver that ignores its context while it reads, as go-redis does, adds its own timeouts
// if they are longer). Leases are renewed many in one call, so a server that does not
// answer for one of them can keep a release on another server waiting, for that call's
// bound, five seconds at most.
//
// While other leases of the same hold are held (Options.Reentrant) it ends this
// one alone, sends nothing, and returns nil: the name stays taken. (If this one
// alone of them was upgraded it is a Downgrade.)
//
// It returns nil if the name was handed over inside the process (see [HandOver]), if the
// store has freed it, or if the store had freed it before the deadline; ErrLost if the
// lease was lost before (a hold that an operator broke is still given back, as the work has
// ended); ErrReleased if it was released before; and ErrUnavailable if the outcome is
// unknown: then the name is free after the TTL at the latest. A later holder is never
// touched.
func (l *Lease) Release() error { return l.engine().Release() }

// ReleaseUnused is Release for a caller that did nothing under the lease, for
// example because its work could not start: no minimum hold (Options.MinHold) is
// kept for it. A name that the caller holds by another lease too
// (Options.Reentrant) is kept as Release keeps it.
func (l *Lease) ReleaseUnused() error { return l.engine().ReleaseUnused() }

// Renew renews the lease now, so that it lasts for ttl from when the request is sent, and
// returns when the store has answered. It is meant for leases under Options.NoRenew, which
// expire then unless Renew is called again in time; it may be called at any time. A lease
// that renews itself goes on doing so, for its own TTL; for such a lease Renew reports
// whether it is still held. ttl is within the bounds of Options.TTL.
//
// A ttl that is shorter than what is left moves the Deadline back at once, whatever the
// outcome of the call. The store keeps the name taken until its previous expiry, or until
// Release.
//
// It is retried while its outcome is indeterminate, until ctx ends or the lease expires.
// It waits for a renewal that is under way, as [Lease.Release] does. ctx bounds the
// waiting only. All leases of one hold (Options.Reentrant) are renewed together.
//
// Errors: ErrInvalid of a ttl out of range, ErrUnsupported on a store without deadlines,
// ErrReleased, and ErrLost if the lease is lost, then or before: it does not come back. If
// ctx ends first, the error matches that of ctx, and ErrUnavailable with the store's
// error: the lease is held until its Deadline, and it is unknown whether it was renewed.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	return l.engine().Renew(ctx, ttl)
}
