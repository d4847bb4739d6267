package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
)

// WatchRecord implements [record.NameWatcher]. A write to the bucket is a message to which any user
// with the right can subscribe, on the servers of the bucket.
func (b *backend) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	if b.o.Domain != "" {
		return nil, fmt.Errorf("%w: behind a leaf node nobody hears what is written to the bucket", store.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience) // the driver requires one
	defer cancel()
	subject := b.subject(keyOf(name))
	sub, err := b.nc.Subscribe(subject, func(*nats.Msg) { changed() })
	if err == nil {
		if err = b.nc.FlushWithContext(ctx); err == nil {
			err = b.mayNotHear(subject)
		}
		if err != nil {
			_ = sub.Unsubscribe()
		}
	}
	if err != nil {
		return nil, b.failed(fmt.Errorf("subscribe to %s: %w", subject, err))
	}
	watching, end := context.WithCancel(b.ctx)
	b.tasks.Go(func() {
		defer func() { _ = sub.Unsubscribe() }()
		b.subscribed(watching, changed)
	})
	return end, nil
}

// mayNotHear returns the error if this user may not subscribe to the subject. NATS reports that on
// the connection, before it answers later requests.
func (b *backend) mayNotHear(subject string) error {
	if last := b.nc.LastError(); ofSubscription(last) && strings.Contains(strings.ToLower(last.Error()), strings.ToLower(`"`+subject+`"`)) { //mutant:nats-who-may-not-hear
		return last
	}
	return nil
}

// ofSubscription reports whether the error says that a user may not subscribe to something.
func ofSubscription(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), "for subscription to")
}
