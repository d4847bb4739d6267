package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A LeaseSet is the result of a successful claim of several names: an ordinary
// [Lease] for each. For the owner they end together: the set is lost as soon as
// one of them is. All methods are safe for concurrent use.
type LeaseSet engine.Leases

// engine returns the leases as the engine's type.
func (all *LeaseSet) engine() *engine.Leases { return (*engine.Leases)(all) }

// Names returns the names that are held, in order.
func (all *LeaseSet) Names() []string { return all.engine().Names() }

// Lease returns the lease of one of the names, or nil if the set has no such name. If
// it is released on its own, the set is no longer valid and its contexts end, but the
// other names are held until [LeaseSet.Release].
func (all *LeaseSet) Lease(name string) *Lease { return (*Lease)(all.engine().Lease(name)) }

// Token is the fencing token of one of the names, or 0 if the set has no such
// name. Give each name's resource that name's own token. See [Lease.Token].
func (all *LeaseSet) Token(name string) int64 { return all.engine().Token(name) }

// Valid reports whether all names are still held. See [Lease.Valid].
func (all *LeaseSet) Valid() bool { return all.engine().Valid() }

// Deadline is the earliest of the leases' deadlines; zero on a store without
// deadlines.
func (all *LeaseSet) Deadline() time.Time { return all.engine().Deadline() }

// Lost returns a channel that is closed when the first of the leases is lost.
// Release never closes it.
func (all *LeaseSet) Lost() <-chan struct{} { return all.engine().Lost() }

// Context returns a context that ends with parent or with the first of the
// leases that ends. See [Lease.Context].
func (all *LeaseSet) Context(parent context.Context) context.Context {
	return all.engine().Context(parent)
}

// Renew renews all leases now, so that they last for ttl, in one call where the store
// can, and returns when all are answered, with the joined errors of those that were
// not renewed. See [Lease.Renew].
func (all *LeaseSet) Renew(ctx context.Context, ttl time.Duration) error {
	return all.engine().Renew(ctx, ttl)
}

// Release gives all names back, in reverse order, even if some fail, and returns
// the joined errors. From its first moment Valid is false and the contexts have
// ended. It releases one name after another, and takes as long as that. See
// [Lease.Release].
func (all *LeaseSet) Release() error { return all.engine().Release() }

// ReleaseUnused is Release for a caller that did nothing under the leases: no
// minimum hold (Options.MinHold) is kept for them. See [Lease.ReleaseUnused].
func (all *LeaseSet) ReleaseUnused() error { return all.engine().ReleaseUnused() }
