// Package holdfastonce is single flight across processes: one process computes the value of a
// key, and the others wait and take it from the cache.
//
//	reports := holdfastonce.New(locks, holdfastonce.Cache[[]byte]{Get: get, Set: set})
//	report, err := reports.Do(ctx, "report/2026-01", func(ctx context.Context) ([]byte, error) {
//		return compute(ctx)
//	})
//
// The cache is yours, and shared by all processes: Redis, a table, a bucket. Get and Set are
// two functions.
//
// # What is promised
//
// While a value is in the cache, no process computes it. While one process computes it, no other
// does, and those that waited take the value from the cache. If a process is killed during a
// computation, the next waiter computes when the lease has expired. An error of a computation is
// returned to its caller and not cached: the waiters compute one after another.
//
// # What is not promised
//
// If the lease is lost during a computation, its context ends, and another process may compute the value too.
// A value computed after that is not put into the cache, and its caller gets [holdfast.ErrLost]. A loss
// between the last check of the lease and the end of Set is not noticed: a late Set can replace the value of a
// later computation. If this matters, have Set check the token of [holdfast.LeaseFrom] of its context, which
// is larger for each later computation: see package guard.
//
// This package does not notice changes: how long a value is valid is up to the cache. If a value expires as
// fast as it is computed, all wait and compute in turn.
package holdfastonce

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A Cache stores values by key. Many goroutines at a time call both functions, but only one process
// at a time calls Set for a key.
type Cache[T any] struct {
	// Get returns the value of the key, and whether there is one. An error is returned to the caller
	// of Do: with no answer from the cache, all processes would compute one after another.
	Get func(ctx context.Context, key string) (value T, ok bool, err error)
	// Set puts the value of the key into the cache. It is called under the lock, with the
	// context of the computation.
	Set func(ctx context.Context, key string, value T) error
}

// A Once computes each value once. It is safe for concurrent use.
type Once[T any] struct {
	locks *holdfast.Locker
	cache Cache[T]
}

// LockPrefix precedes the key in the name of its lock.
const LockPrefix = "once/"

// New returns a Once. Processes that share a cache share a store, and give a key the same meaning.
// A MaxHold of locks bounds each computation; a Wait of locks bounds each wait.
func New[T any](locks *holdfast.Locker, cache Cache[T]) *Once[T] {
	return &Once[T]{locks, cache}
}

// A SetError is what Do returns, with the value, if the value was computed and Set failed: others
// will compute it again.
type SetError struct {
	Key string // of the value
	Err error  // of Set
}

// Error returns the key and the reason.
func (e *SetError) Error() string { return fmt.Sprintf("cache %q: %v", e.Key, e.Err) }

// Unwrap returns the error of Set.
func (e *SetError) Unwrap() error { return e.Err }

// Do returns the value of the key: from the cache, or by compute. The context of compute ends
// with ctx and with the lease, and [holdfast.LeaseFrom] finds the lease in it. A key is UTF-8 of at most 507 bytes.
//
// Errors:
//
//   - That of compute, or of Get.
//   - A *[SetError]: the value is good, and was not cached.
//   - One that matches [holdfast.ErrNotRun]: no value is in the cache, and the lock was not obtained. It
//     is that of [holdfast.Lock.Lock]: ctx ended while another computed, or the store did not answer.
//   - One that matches [holdfast.ErrLost]: the lease was lost during compute, whose value is dropped.
func (o *Once[T]) Do(ctx context.Context, key string, compute func(context.Context) (T, error)) (value T, err error) {
	var zero T
	if value, ok, err := o.cache.Get(ctx, key); err != nil || ok {
		return value, err
	}
	var unset *SetError // the value is valid anyway
	err = o.locks.Mutex(LockPrefix+key).Do(ctx, func(ctx context.Context) (err error) {
		var ok bool
		if value, ok, err = o.cache.Get(ctx, key); err != nil || ok { // computed while we waited //mutant:once-looks-again
			return err
		}
		if value, err = compute(ctx); err != nil { //mutant:once-error
			return err
		}
		if !holdfast.LeaseFrom(ctx).Valid() { //mutant:once-lost
			return holdfast.ErrLost
		}
		if err := o.cache.Set(ctx, key, value); err != nil {
			unset = &SetError{key, err}
		}
		return nil
	})
	if released := (*holdfast.ReleaseError)(nil); errors.As(err, &released) && released.Err == nil && !errors.Is(err, holdfast.ErrLost) {
		err = nil // it is unknown whether the lock is free already, but the value is valid
	}
	switch {
	case err != nil:
		return zero, err
	case unset != nil:
		return value, unset
	}
	return value, nil
}
