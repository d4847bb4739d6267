package prove

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A lease is what a claim gives: ours, or what is made of one of a user's own lock.
type lease interface {
	// ID tells the claim from all others.
	ID() string
	Token() int64 // 0: it has none
	// Deadline is when the store lets others in unless it is renewed, as far as
	// that can be known; zero: it cannot.
	Deadline() time.Time
	Valid() bool           // as far as the library has told
	Lost() <-chan struct{} // closed when the library has told of a loss
	Release() error
}

// ours is how a name is claimed by a call of holdfast.
func ours(f func(context.Context) (*holdfast.Lease, error)) taking {
	return func(ctx context.Context) (lease, error) {
		l, err := f(ctx)
		if err != nil {
			return nil, err // not l: a nil pointer in an interface is not nil
		}
		return l, nil
	}
}
