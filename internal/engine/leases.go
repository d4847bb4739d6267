package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Leases are what a granted claim of several names gives its caller, who treats them
// as one. Package holdfast documents what its methods of the same names promise.
type Leases struct {
	parts []*Lease // in the order of their names
	once  sync.Once
	lost  chan struct{} // made by the first Lost
}

// Names returns the names that are held, in order.
func (all *Leases) Names() []string {
	names := make([]string, len(all.parts))
	for i, l := range all.parts {
		names[i] = l.Name()
	}
	return names
}

// Lease returns the lease of the name, or nil.
func (all *Leases) Lease(name string) *Lease {
	for _, l := range all.parts {
		if l.Name() == name {
			return l
		}
	}
	return nil
}

// Token returns the token of the lease of the name, or 0.
func (all *Leases) Token(name string) int64 {
	if l := all.Lease(name); l != nil {
		return l.Token()
	}
	return 0
}

// Valid reports whether all names are still held.
func (all *Leases) Valid() bool {
	for _, l := range all.parts {
		if !l.Valid() { //mutant:loss-beside-valid
			return false
		}
	}
	return true
}

// Deadline returns the earliest of the leases' deadlines.
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

// Context returns a context that ends with parent or with the first lease that
// ends.
func (all *Leases) Context(parent context.Context) context.Context {
	for _, l := range all.parts {
		parent = l.Context(parent) //mutant:all-lost
	}
	return parent
}

// Release gives back all names, in reverse order.
func (all *Leases) Release() error { return all.ReleaseBut(nil) }

// ReleaseUnused is Release for a caller that did nothing under the leases.
func (all *Leases) ReleaseUnused() error {
	for _, l := range all.parts {
		l.unused()
	}
	return all.Release()
}

// ReleaseUnused is Release for a caller that did nothing under the lease.
func (l *Lease) ReleaseUnused() error {
	l.unused() //mutant:one-unused-keeps-minimum
	return l.Release()
}

// unused notes that nothing was done under the lease. It has an effect only if the
// lease was the first of its hold and is the only one left, as work may have been
// done under other leases.
func (l *Lease) unused() {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if l == &h.first && h.users == 1 { //mutant:unused-for-others
		h.unrun.Store(true) //mutant:unused-keeps-minimum
	}
}

// ReleaseBut is Release without the errors that match fine.
func (all *Leases) ReleaseBut(fine error) error {
	var failed []error
	for _, l := range slices.Backward(all.parts) { //mutant:released-taken
		if err := l.Release(); err != nil && (fine == nil || !errors.Is(err, fine)) {
			failed = append(failed, err) //mutant:first-failure-ends-release
		}
	}
	return errors.Join(failed...)
}

// Does is [Lease.Does].
func (all *Leases) Does() { all.parts[0].Does() }

// Did is [Lease.Did].
func (all *Leases) Did() { all.parts[0].Did() }
