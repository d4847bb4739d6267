package natsstore

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
)

func isNotFound(err error) bool { return errors.Is(err, jetstream.ErrStreamNotFound) }

// failed turns an error of the client or the server into one for users, and marks some as definite.
func (b *backend) failed(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrLost):
		return err
	case store.Definite(err):
		return fmt.Errorf("%s: %w", b.address, err)
	case errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("%w: %s: %w", store.ErrDenied, b.address, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: %s: %w: its operator can enable it", store.ErrUnsupported, b.address, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded): // so the driver reports a missing connection
		if b.dialed != nil && b.dialed.Load() != nil {
			err = *b.dialed.Load()
		}
		return fmt.Errorf("there is no connection at the moment: %w", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled): // a cluster without a leader says this, too
		return fmt.Errorf("nobody answers for JetStream: its servers have no leader, or were started without -js: %w", err)
	}
	return err
}

// hosts returns the addresses of servers, without user and password.
func hosts(urls []string) string {
	all := make([]string, len(urls))
	for i, one := range urls {
		all[i] = "?"
		if u, err := url.Parse(one); err == nil {
			all[i] = u.Host
		}
	}
	slices.Sort(all) // the driver shuffles them
	return strings.Join(all, ", ")
}

func (o *Options) check() error {
	for i := range len(o.Bucket) {
		if !plain(o.Bucket[i]) {
			return fmt.Errorf("%w: %.40q as a bucket of NATS: want letters, digits, - and _", store.ErrInvalid, o.Bucket)
		}
	}
	for i := range len(o.Domain) {
		if !plain(o.Domain[i]) {
			return fmt.Errorf("%w: %.40q as a domain of NATS: want letters, digits, - and _", store.ErrInvalid, o.Domain)
		}
	}
	if o.Replicas < 1 || o.Replicas > 5 {
		return fmt.Errorf("%w: %d replicas of a bucket of NATS: want 1 to 5", store.ErrInvalid, o.Replicas)
	}
	return nil
}
