package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

func (b *backend) mailbox(p store.Process) string {
	return "holdfast.hint." + b.o.Bucket + "." + p.String()
}

// notify sends notifications. If one is lost, the waiter finds out by its own poll.
func (b *backend) notify(all []record.Notification) {
	for i := range all {
		_ = b.nc.Publish(b.mailbox(all[i].ID.Process()), record.AppendNotifications(nil, all[i:i+1]))
	}
}

// Listen implements [record.Backend].
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	ctx, cancel := context.WithTimeout(ctx, checkPatience) // the driver requires one
	defer cancel()
	if _, err := b.prepared(ctx, false); err != nil {
		return b.failed(err)
	}
	sub, err := b.nc.Subscribe(b.mailbox(p), func(m *nats.Msg) {
		record.ParseNotifications(m.Data, sink)
	})
	if err == nil {
		if err = b.nc.FlushWithContext(ctx); err != nil {
			_ = sub.Unsubscribe()
		}
	}
	if err != nil {
		return b.failed(fmt.Errorf("subscribe to %s: %w", b.mailbox(p), err))
	}
	b.tasks.Go(func() {
		defer func() { _ = sub.Unsubscribe() }()
		b.subscribed(b.ctx, func() { sink(record.Notification{}) })
	})
	return nil
}

// subscribed calls missed whenever notifications of a new subscription may have been missed, until
// ctx ends.
func (b *backend) subscribed(ctx context.Context, missed func()) {
	connected := b.nc.StatusChanged(nats.CONNECTED)
	defer b.nc.RemoveStatusListener(connected)
	known := b.spreads() //mutant:nats-nobody-looks-once-others
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-connected:
			if !open { // the connection was closed for good
				<-ctx.Done()
				return
			}
			missed() // what was sent meanwhile is lost
			known = b.spreads()
		case <-known:
			missed() // what was sent through other servers before they knew of us is lost, too
			known = nil
		}
	}
}

// spreadTime is how long the servers of a cluster take at most, on a healthy
// network, to propagate a subscription.
const spreadTime = 500 * time.Millisecond

// spreads returns a channel that fires when all servers know of a subscription that was made just
// now. It is nil, and never fires, if there is one server, which knows at once.
func (b *backend) spreads() <-chan time.Time {
	if b.nc.ConnectedClusterName() == "" && b.o.Domain == "" {
		return nil
	}
	return time.After(spreadTime)
}
