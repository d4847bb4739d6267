package holdfast

import (
	"context"
	"fmt"
	"reflect"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// A Locker makes locks on one store. It is safe for concurrent use, and meant
// to be made once per process.
type Locker struct {
	engine *engine.Locker
	o      *Options // as given, over the parent's
}

// New returns a Locker on the store. It does no I/O. From now on the store
// belongs to the Locker, and [Locker.Close] closes it; the client that the
// store was made from stays the caller's.
//
// The error is ErrInvalid if the store is nil or the options are nonsense, and
// ErrUnsupported where the store cannot do what they ask.
func New(s store.Store, o *Options) (*Locker, error) {
	if v := reflect.ValueOf(s); s == nil || v.Kind() == reflect.Pointer && v.IsNil() { //mutant:nil-store
		return nil, fmt.Errorf("%w: holdfast.New needs a store, got nil (%T)", ErrInvalid, s)
	}
	e, err := engine.Open(s, refused)
	if err != nil {
		return nil, err
	}
	l := (&Locker{engine: e, o: &Options{}}).With(o)
	if err := l.engine.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

// With returns a Locker on the same store with other options; what o does not set is as
// in l. Closing either of the two closes both. If the options are nonsense, every claim
// by it fails with the error that [New] would return.
func (l *Locker) With(o *Options) *Locker {
	o = o.over(l.o)
	return &Locker{engine: l.engine.With(o.engine()), o: o}
}

// Close gives back every lease of this Locker and of all that With returned,
// many at once, ends every wait with ErrClosed, and closes the store. It takes
// at most five seconds, however many leases there are and whatever the store
// does. No release is sent for a lease that has expired.
//
// If leases were not given back, or that is unknown, the error says how many; it matches ErrUnavailable and
// the newest cause. The store lets them expire. The error of closing the store is joined to it, and matches
// ErrUnavailable too. If a driver ignores its contexts, as go-redis does while it reads, calls may still
// run when Close returns. The error says so, and the store is closed after them.
//
// Later calls are ErrClosed. A second Close waits for the first and returns the
// same error.
func (l *Locker) Close() error { return l.engine.Close() }

// Shutdown closes without taking leases away, until ctx ends. From then on new
// claims are ErrClosed, and so are waiting ones, including upgrades, campaigns
// and Observe. Then it waits until all leases have been released or lost and
// every function of a Do has returned, and closes as Close does. Meanwhile
// leases are renewed and can be released, detached, and entered again
// (Options.Reentrant).
//
// If ctx ends first, Shutdown closes anyway, and the error matches that of ctx
// and says how many leases were still held. A concurrent Close ends the
// waiting at once. A second Shutdown waits together with the first, and when
// the ctx of either ends, both close. It does not wait for detached holds. A
// leader under [Election.Lead] leads until its function returns: end that
// first.
func (l *Locker) Shutdown(ctx context.Context) error { return l.engine.Shutdown(ctx) }
