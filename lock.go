package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Lock is one name and a way to hold it: alone ([Locker.Mutex], [RWMutex.Write]),
// together with other readers ([RWMutex.Read]), or as some of its slots
// ([Semaphore.Slots]). All are waited for or tried in the same way, and give a
// [Lease]. A Lock keeps no state of its own and is safe for concurrent use. Two
// Locks of one name are the same lock, and the grant belongs to the Lease.
type Lock struct{ claimed engine.Target }

// Mutex returns the lock of the name, which one holder at a time may have, in any
// process. The name is any UTF-8 of 1 to 512 bytes. A bad name is an ErrInvalid of
// the first call. It is the [RWMutex.Write] of the same name.
func (l *Locker) Mutex(name string) *Lock {
	return &Lock{l.engine.Write(name)}
}

// Lock waits until the caller has the name. Goroutines of a process are served in the order
// of arrival. Processes take turns, in the order in which the first waiter of each arrived:
// so a later process overtakes the goroutines that wait behind the first of an earlier one
// (see Order in the package documentation). ctx bounds the waiting only: canceling it later
// does not end the lease.
//
// Errors:
//
//   - A *[HeldError], which says who is ahead: ctx ended after the store had refused the
//     claim. It matches [ErrHeld] and the context's error.
//   - A *[HeldError] at once, which matches no context's error: as many claims of this
//     process wait for the name as [Options.MaxWaiting] allows.
//   - The context's error alone: ctx ended before the store answered, and before it had
//     been silent for a second.
//   - [ErrUnavailable] with the newest cause: the store does not answer. It matches the
//     context's error too if ctx has ended. Otherwise the store was retried for long enough:
//     5 s at most, one second if its port is closed (unless the store has a client of your
//     own, whose settings say how long it dials), and 10 s for a claim that had a position
//     in the queue. All others who wait for the name in this process get the error at the
//     same time. A claim that waits behind such a claim of its process learns that the port
//     is closed when that one asks next, within 5 s.
//   - [ErrDeadlock]: ctx comes from a lease of this name that blocks the claim, and
//     [Options.Reentrant] does not let the claim enter it again. Slots block the claim only
//     if they and the slots asked for are more than the total.
//   - [ErrMismatch], [ErrDenied], [ErrCorrupt], [ErrUnsupported], [ErrInvalid], [ErrClosed].
//
// [Options.Wait] bounds the wait as a deadline of ctx would: what this says of the end of
// ctx holds for the end of Wait, with [context.DeadlineExceeded] as its error.
func (m *Lock) Lock(ctx context.Context) (*Lease, error) { return lockFor(ctx, &m.claimed) }

// TryLock takes the name if it is free and no one waits for it, and never waits. If
// it is refused the error is a *[HeldError]; the others are those of [Lock.Lock]. A
// name that is kept taken after a release (Options.MinHold) or an expiry
// (Options.LockDelay) is not free.
func (m *Lock) TryLock(ctx context.Context) (*Lease, error) { return tryFor(ctx, &m.claimed) }

// Do waits as Lock does, runs fn, and gives the name back. The context of fn
// ends with ctx or with the lease, and [LeaseFrom] finds the lease in it. It
// never returns before fn, and a panic in fn releases too.
//
// Its error says whether fn was called. If it was not, the error is that of Lock
// and matches ErrNotRun. If it was, the error never matches ErrNotRun: it is
// what fn returned, or a *ReleaseError with that and with what became of the
// lease, if that was lost meanwhile (then it matches ErrLost) or it is unknown
// whether it was given back.
func (m *Lock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, &m.claimed, fn)
}

// TryDo is Do if the name is free and no one waits for it. If it is refused it returns
// false and no error. ran says whether fn was called, as does any error: see [Lock.Do].
func (m *Lock) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	return tryDo(ctx, &m.claimed, fn)
}
