package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Semaphore is one name with a number of slots, of which each holder has one or
// more. A claim for more than is free blocks later claims, so wide claims do not
// starve. Claims of a process that fit into the semaphore together do not wait for
// each other; see Order in the package documentation. It keeps no state of its own
// and is safe for concurrent use.
//
// The number of slots should be the same for all users of the name. While two
// numbers are in use, as in a rolling deploy, the slots held never exceed the
// number of any holder, and held slots stay held. A claim for more than the smaller
// number waits until no claim with that number holds anything. A lock of this name
// is ErrMismatch on every store. Between claims of a process with two numbers there
// is no order of arrival; see Order in the package documentation.
type Semaphore struct{ slots engine.Target }

// Semaphore returns the semaphore of the name, any UTF-8 of 1 to 512 bytes, with n slots,
// 1 to 2³⁰−1. A bad name or number is an ErrInvalid of the first call. On a store without
// slots (pgadvisory), or without so many (redlock), a claim is ErrUnsupported.
func (l *Locker) Semaphore(name string, n int) *Semaphore {
	return &Semaphore{l.engine.Slots(name, n)}
}

// Total returns the number of slots that the semaphore was made with.
func (s *Semaphore) Total() int { return s.slots.Limit() }

// Slots returns k slots as one [Lock]: one lease has all k. A k under 1 or over
// the Total is an ErrInvalid of the first call.
func (s *Semaphore) Slots(k int) *Lock { return &Lock{*s.slots.Of(k)} }

// Acquire waits until the caller has k slots. It is the [Lock.Lock] of [Semaphore.Slots].
func (s *Semaphore) Acquire(ctx context.Context, k int) (*Lease, error) {
	return lockFor(ctx, s.slots.Of(k))
}

// TryAcquire takes k slots if they are free and no one waits. It is the
// [Lock.TryLock] of [Semaphore.Slots].
func (s *Semaphore) TryAcquire(ctx context.Context, k int) (*Lease, error) {
	return tryFor(ctx, s.slots.Of(k))
}
