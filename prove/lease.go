package prove

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A lease is the result of a claim: a lease of holdfast, or one made from the lease
// of a user's own lock.
type lease interface {
	// ID identifies the claim.
	ID() string
	Token() int64 // 0: the lock has no tokens
	// Deadline returns when the store may grant the name to others unless the
	// lease is renewed; zero: unknown.
	Deadline() time.Time
	Valid() bool           // as reported by the library
	Lost() <-chan struct{} // closed when the library reports a loss
	Release() error
}

// byHoldfast claims a name by a call of holdfast.
func byHoldfast(f func(context.Context) (*holdfast.Lease, error)) taking {
	return func(ctx context.Context) (lease, error) {
		l, err := f(ctx)
		if err != nil {
			return nil, err // not l: a nil pointer in an interface is not nil
		}
		return l, nil
	}
}
