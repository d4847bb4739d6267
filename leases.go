package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Leases are what a successful claim of several names gives: an ordinary
// [Lease] for each, which end together for their owner. They are lost as soon
// as one of them is. All methods are safe for concurrent use.
type Leases struct {
	parts []*Lease // in the order of their names
	once  sync.Once
	lost  chan struct{} // made by the first Lost
}

// Names are the names that are held, in order.
func (all *Leases) Names() []string {
	names := make([]string, len(all.parts))
	for i, l := range all.parts {
		names[i] = l.Name()
	}
	return names
}

// Lease returns the lease of one of the names, or nil if it is none of them. To
// release it on its own ends the whole for its owner, and leaves the rest to
// Release.
func (all *Leases) Lease(name string) *Lease {
	for _, l := range all.parts {
		if l.Name() == name {
			return l
		}
	}
	return nil
}

// Token is the fencing token of one of the names, or 0 if it is none of them:
// each name's resource has to be given that name's own. See [Lease.Token].
func (all *Leases) Token(name string) int64 {
	if l := all.Lease(name); l != nil {
		return l.Token()
	}
	return 0
}

// Valid reports whether all names are held still. See [Lease.Valid].
func (all *Leases) Valid() bool {
	for _, l := range all.parts {
		if !l.Valid() { //mutant:loss-beside-valid
			return false
		}
	}
	return true
}

// Deadline is the earliest of the leases' deadlines; zero on a store without
// deadlines.
func (all *Leases) Deadline() time.Time {
	first := all.parts[0].Deadline()
	for _, l := range all.parts[1:] {
		if d := l.Deadline(); d.Before(first) { //mutant:last-deadline
			first = d
		}
	}
	return first
}

// Lost returns a channel that is closed when the first of the leases is lost.
// Release never closes it.
func (all *Leases) Lost() <-chan struct{} {
	all.once.Do(func() {
		all.lost = make(chan struct{})
		first := sync.OnceFunc(func() { close(all.lost) })
		for _, l := range all.parts {
			l.whenLost(first)
		}
	})
	return all.lost
}

// Context returns a context that ends with parent or with the first of the
// leases that ends. See [Lease.Context].
func (all *Leases) Context(parent context.Context) context.Context {
	for _, l := range all.parts {
		parent = l.Context(parent) //mutant:all-lost
	}
	return parent
}

// Release gives all names back, in reverse order: each of them, also if another
// one fails, and it returns all that failed, joined. From its first moment Valid
// is false and the contexts have ended. It takes as long as the releases of the
// names one after another. See [Lease.Release].
func (all *Leases) Release() error { return all.release(nil) }

// release gives all names back and returns what failed, but for what matches
// fine.
func (all *Leases) release(fine error) error {
	var failed []error
	for _, l := range slices.Backward(all.parts) { //mutant:released-taken
		if err := l.Release(); err != nil && (fine == nil || !errors.Is(err, fine)) {
			failed = append(failed, err) //mutant:first-failure-ends-release
		}
	}
	return errors.Join(failed...)
}

// run is the second half of a Do.
func (all *Leases) run(ctx context.Context, fn func(context.Context) error) error {
	release := func() error { return all.release(ErrReleased) } // or fn released one itself
	e := all.parts[0].hold.e
	e.does()
	defer e.did()
	return thenRelease(release, func() error { return fn(all.Context(ctx)) })
}
