package prove

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A Lease is what a claim gives: ours, or what an adapter makes of another
// library's.
type Lease interface {
	// ID tells the claim from all others.
	ID() string
	Token() int64 // 0: it has none
	// Deadline is when the store lets others in unless it is renewed, as far as
	// that can be known; zero: it cannot.
	Deadline() time.Time
	Valid() bool           // as far as the library has told
	Lost() <-chan struct{} // closed when the library has told of a loss
	// Release gives the lock back.
	Release() error
}

// A Peer is another library's locks, in one process.
type Peer interface {
	// Lock waits until the name is ours.
	Lock(ctx context.Context, name string) (Lease, error)
	// TryLock takes the name if it is free, and else fails with ErrHeld.
	TryLock(ctx context.Context, name string) (Lease, error)
	// Close gives everything back.
	Close() error
}

// ChildOf is Child for another library, which open opens with all its
// connections made by dial.
func ChildOf(in io.Reader, w io.Writer, open func(url string, ttl time.Duration, dial Dial) (Peer, error)) error {
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 1<<20)
	c, err := readJob(orders, w)
	if err != nil || c == nil {
		return err
	}
	return c.run(func() (err error) {
		c.peer, err = open(c.URL, c.Run.TTL, c.dial)
		return err
	}, orders)
}

// ours is how a name is claimed by a call of holdfast.
func ours(f func(context.Context) (*holdfast.Lease, error)) taking {
	return func(ctx context.Context) (Lease, error) {
		l, err := f(ctx)
		if err != nil {
			return nil, err // not l: a nil pointer in an interface is not nil
		}
		return l, nil
	}
}
