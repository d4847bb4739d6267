package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A ByName locks and unlocks by name, for programs whose own lock interface has no
// lease, such as ncps. It keeps the lease of each name between Lock and Unlock. Some
// such programs have an adapter: certmagic and Caddy, gocron and others, below the
// directory adapters. It is safe for concurrent use.
//
// Where a program can keep the lease itself, a [Lock] is better: with a ByName the
// work learns only from Unlock that its lease was lost, unless it checks
// [ByName.Lease].
type ByName struct {
	locks *Locker

	mu sync.Mutex
	// The leases of each name, oldest first. A lost lease stays until its Unlock, which must not
	// release the lease of a later Lock.
	held map[string][]*Lease
}

// ByName returns a ByName with the options of this Locker.
func (l *Locker) ByName() *ByName { return &ByName{locks: l, held: map[string][]*Lease{}} }

// Lock waits until the caller holds the name exclusively. See [Lock.Lock].
func (b *ByName) Lock(ctx context.Context, name string) error {
	l, err := b.locks.Mutex(name).Lock(ctx)
	return b.keep(l, err)
}

// TryLock takes the name if no one holds it or waits for it, and reports whether it
// did. A refusal is not an error; the errors are otherwise those of [Lock.TryLock].
func (b *ByName) TryLock(ctx context.Context, name string) (bool, error) {
	l, err := b.locks.Mutex(name).TryLock(ctx)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	return err == nil, b.keep(l, err)
}

func (b *ByName) keep(l *Lease, err error) error {
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[l.Name()] = append(b.held[l.Name()], l)
	return nil
}

// Unlock gives the name back. It has a context parameter because such interfaces do,
// and ignores it. It returns the errors of [Lease.Release]. The error is ErrLost if the
// lease was lost meanwhile, and ErrReleased if this ByName does not hold the name.
//
// A lost lease is kept until its Unlock. If the name was locked again by then, Unlock
// gives back the oldest lease, so that each Unlock matches its Lock.
func (b *ByName) Unlock(_ context.Context, name string) error {
	b.mu.Lock()
	held := b.held[name]
	if len(held) == 0 {
		b.mu.Unlock()
		return fmt.Errorf("unlock %q: %w: it is not held here", name, ErrReleased)
	}
	l := held[0] //mutant:by-name-oldest
	if len(held) == 1 {
		delete(b.held, name)
	} else {
		b.held[name] = held[1:]
	}
	b.mu.Unlock()
	return l.Release()
}

// Lease returns the newest lease of the name, or nil if this ByName does not hold
// it.
func (b *ByName) Lease(name string) *Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held := b.held[name]; len(held) > 0 {
		return held[len(held)-1]
	}
	return nil
}
