package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Claimer is one of the names that [Locker.All] takes together: a [*Mutex],
// or what [RWMutex.R], [RWMutex.W] and [Semaphore.N] return.
type Claimer interface{ claim() engine.Target }

func (m *Mutex) claim() engine.Target {
	if m == nil {
		return engine.Target{}
	}
	return m.claimed
}

// A part is a claim that has no other name.
type part struct{ claimed *engine.Target }

func (p part) claim() engine.Target { return *p.claimed }

// R is the read lock as a claim of [Locker.All].
func (m *RWMutex) R() Claimer { return part{&m.read} }

// W is the write lock as a claim of [Locker.All].
func (m *RWMutex) W() Claimer { return part{&m.write} }

// N is k slots as a claim of [Locker.All].
func (s *Semaphore) N(k int) Claimer { return part{s.slots.Of(k)} }

// A Several is several names that are taken together or not at all. It keeps no
// state of its own and is safe for concurrent use; the grant belongs to the
// [Leases].
type Several struct{ claims engine.Several }

// All returns the names of the claims, to be taken together. They are taken in
// the order of their bytes, whatever the order in which they are given, so that
// two who want some of the same names never wait for each other. Of a name that
// is there twice a write lock covers a read lock, and slots add up.
//
// The claims are those of this Locker's store, and are taken with this Locker's
// options, of which Wait bounds all the waiting together. No claims, a nil
// among them, or one of another store is an ErrInvalid of the first call; a
// name that is there both as a lock and as a semaphore, or as semaphores of two
// sizes, is its ErrMismatch.
func (l *Locker) All(claims ...Claimer) *Several {
	targets := make([]engine.Target, len(claims))
	for i, c := range claims {
		if c != nil {
			targets[i] = c.claim()
		}
	}
	return &Several{l.engine.All(targets)}
}

// Lock waits until all names are ours: for each in turn, while it holds those
// before it. ctx bounds the waiting only. If it fails nothing is held: what it
// had is given back, with no minimum hold, and nobody but the log hears of it.
//
// A name that sorts before one whose lease ctx comes from is only tried, as two
// who do the reverse would wait for each other: refused is ErrDeadlock then. A
// name that was lost while it waited for the others is ErrLost. The other
// errors are those of [Mutex.Lock].
func (s *Several) Lock(ctx context.Context) (*Leases, error) { return s.take(ctx, false) }

// TryLock takes all names if all are free, and never waits for another. If one
// is refused the error is its *HeldError, and nothing is held.
func (s *Several) TryLock(ctx context.Context) (*Leases, error) { return s.take(ctx, true) }

// Do waits as Lock does, runs fn, and gives the names back. The context of fn
// ends with ctx or with the first lease that ends, and [LeaseOf] finds the
// leases in it. For its error see [Mutex.Do].
func (s *Several) Do(ctx context.Context, fn func(context.Context) error) error {
	all, err := s.Lock(ctx)
	if err != nil {
		return notRun(err)
	}
	return runAll(ctx, all, fn)
}

// TryDo is Do if all names are free; else it returns false and no error.
func (s *Several) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	all, err := s.TryLock(ctx)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, notRun(err)
	}
	return true, runAll(ctx, all, fn)
}

func (s *Several) take(ctx context.Context, try bool) (*Leases, error) {
	all, err := s.claims.Take(ctx, try)
	return (*Leases)(all), err
}
