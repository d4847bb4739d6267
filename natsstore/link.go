package natsstore

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// errUnanswered is of a request that may have been done, or may yet be.
var errUnanswered = errors.New("the connection was lost before the answer came")

// A link is one of the connections that nats.go makes, one after another, for one nats.Conn.
type link struct {
	nth uint64             // how many were made before it
	ctx context.Context    // is done once it is lost
	end context.CancelFunc // of ctx
}

func newLink(nth uint64) link {
	ctx, end := context.WithCancel(context.Background())
	return link{nth, ctx, end}
}

// answered sends a request and waits for its answer. nats.go waits on after the connection has been
// lost, for an answer that hardly ever comes on the next one. Here the request ends with errUnanswered.
func answered[T any](ctx context.Context, b *backend, send func(context.Context) (T, error)) (T, error) {
	if !b.nc.IsConnected() { // it fails at once, and says why //mutant:nats-request-without-a-link
		return send(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.newestLink().ctx, func() { cancel(errUnanswered) })() //mutant:nats-request-ends-with-its-link
	out, err := send(ctx)
	if errors.Is(err, context.Canceled) && context.Cause(ctx) == errUnanswered { //mutant:nats-lost-is-not-canceled
		err = errUnanswered
	}
	return out, err
}

// newestLink is the link that a request is sent on which begins now. With it, those before are known to be lost.
func (b *backend) newestLink() link {
	nth := b.nc.Stats().Reconnects
	b.mu.Lock()
	defer b.mu.Unlock()
	if nth > b.link.nth {
		b.link.end() //mutant:nats-next-link-ends-the-last
		b.link = newLink(nth)
	}
	return b.link
}

// endLinks has each link end once it is lost, until Close. nats.go drops a status while ten are unread. That does no harm:
// each of the ten has us look at the present. A connection that is closed for good needs none, as nats.go ends its requests.
func (b *backend) endLinks() {
	lost := b.nc.StatusChanged(nats.RECONNECTING)
	b.tasks.Go(func() {
		defer b.nc.RemoveStatusListener(lost)
		for {
			select {
			case <-b.ctx.Done():
				return
			case <-lost:
				b.endLost()
			}
		}
	})
}

// endLost ends the newest link if it is lost. If the status was that of an earlier link, it is not. The link is read before the
// connection is looked at, and without b.mu being held meanwhile: nats.go holds a lock of its own while it dials.
func (b *backend) endLost() {
	b.mu.Lock()
	l := b.link
	b.mu.Unlock()
	if !b.nc.IsConnected() || b.nc.Stats().Reconnects > l.nth { //mutant:nats-late-loss-ends-no-new-request
		l.end()
	}
}
