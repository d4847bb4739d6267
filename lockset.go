package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A LockSet is several names that are taken together or not at all. It keeps no
// state of its own and is safe for concurrent use; the grant belongs to the
// [LeaseSet].
type LockSet struct{ claims engine.Several }

// All returns a set of the locks, to be taken together. They are taken in the
// order of their names' bytes, whatever the order of the arguments, so that two
// callers that want some of the same names never wait for each other. If a name
// is given twice, a write lock covers a read lock, and slots add up.
//
// The locks are those of this Locker's store, and are taken with this Locker's
// options, of which Wait bounds all the waiting together. No locks, a nil among
// them, or one of another store is an ErrInvalid of the first call; a name
// given both as a lock and as a semaphore, or as semaphores of two sizes, is
// its ErrMismatch.
func (l *Locker) All(locks ...*Lock) *LockSet {
	targets := make([]engine.Target, len(locks))
	for i, lock := range locks {
		if lock != nil {
			targets[i] = lock.claimed
		}
	}
	return &LockSet{l.engine.All(targets)}
}

// Lock waits until the caller has all names: for each in turn, while it holds those
// before it. Options.MaxHold counts from when all are held. ctx bounds the waiting
// only. If Lock fails, nothing is held: the names that it had are given back, with no
// minimum hold; an error of that release is only logged.
//
// If ctx comes from a lease, a name that sorts before the name of that lease is taken
// only if it is free, otherwise the error is ErrDeadlock: waiting out of order could
// deadlock. The error is ErrLost if a name was lost while it waited for the others.
// The other errors are those of [Lock.Lock].
func (s *LockSet) Lock(ctx context.Context) (*LeaseSet, error) { return s.take(ctx, false) }

// TryLock takes all names if all are free, and never waits for another. If one
// is refused the error is its *HeldError, and nothing is held. The other errors are
// those of [LockSet.Lock], but never ErrDeadlock for the order of names.
func (s *LockSet) TryLock(ctx context.Context) (*LeaseSet, error) { return s.take(ctx, true) }

// Do waits as Lock does, runs fn, and gives the names back. The context of fn
// ends with ctx or with the first lease that ends, and [LeaseOf] finds the
// leases in it. For its error see [Lock.Do].
func (s *LockSet) Do(ctx context.Context, fn func(context.Context) error) error {
	all, err := s.Lock(ctx)
	if err != nil {
		return notRun(err)
	}
	return runAll(ctx, all, fn)
}

// TryDo runs fn while it holds all names, as [LockSet.Do] does, if all are free. It does
// not wait: if one is refused it returns false and no error. For its other errors see
// [Lock.Do].
func (s *LockSet) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	all, err := s.TryLock(ctx)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, notRun(err)
	}
	return true, runAll(ctx, all, fn)
}

func (s *LockSet) take(ctx context.Context, try bool) (*LeaseSet, error) {
	all, err := s.claims.Take(ctx, try)
	return (*LeaseSet)(all), err
}
