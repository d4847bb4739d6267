package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A Mutex is one name that one holder at a time may have, wherever it asks
// from. It is the write side of the [RWMutex] of the same name. It keeps no
// state of its own and is safe for concurrent use; two Mutexes of one name are
// the same lock, and the grant belongs to the [Lease], not to the Mutex.
type Mutex struct{ w want }

// Mutex returns the mutex of the name: any UTF-8 of 1 to 512 bytes. A bad name
// is an ErrInvalid of the first call.
func (l *Locker) Mutex(name string) *Mutex {
	return &Mutex{want{l: l, name: name, limit: store.Full, weight: store.Full, verb: "lock"}}
}

// Lock waits until the name is ours, in the order of arrival. ctx bounds the
// waiting only: cancelling it later does not end the lease.
//
// Errors: one that matches the context's error, and ErrHeld if the store had
// answered that somebody is ahead (as a *HeldError, which says who); ErrDeadlock
// if ctx comes from a lease of this name (but see Options.Reentrant);
// ErrMismatch, ErrUnavailable, ErrDenied, ErrCorrupt, ErrUnsupported,
// ErrInvalid and ErrClosed.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.w.lock(ctx) }

// TryLock takes the name if it is free and nobody waits for it, and never
// waits for another. If it is refused the error is a *HeldError; the others are
// those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.w.try(ctx) }

// Do waits as Lock does, runs fn, and gives the name back. The context of fn
// ends with ctx or with the lease, and [LeaseFrom] finds the lease in it. Do
// returns fn's error, joined with ErrLost if the lease was lost meanwhile; it
// never returns before fn, and a panic in fn releases too.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return m.w.do(ctx, fn)
}

// TryDo is Do if the name is free; else it returns false and no error: somebody
// else is at it.
func (m *Mutex) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	return m.w.tryDo(ctx, fn)
}
