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

// failed makes an error of the client or the server one for people. What is
// one of ours already stays what it is.
func (s *Store) failed(what string, err error) error {
	if err == store.ErrLost {
		return err
	}
	if lost := (*store.LostError)(nil); errors.As(err, &lost) {
		return err
	}
	if mismatch := (*store.MismatchError)(nil); errors.As(err, &mismatch) {
		return err
	}
	switch {
	case store.Definite(err):
		return fmt.Errorf("%s on %s: %w", what, s.address, err)
	case errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("%w: %s on %s: %w (the package comment of natsstore has the rights that suffice)", store.ErrDenied, what, s.address, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: %s on %s: %w: its operator can give it some", store.ErrUnsupported, what, s.address, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded): // which is how the driver says it
		if s.dialed != nil && s.dialed.Load() != nil {
			err = *s.dialed.Load()
		}
		return fmt.Errorf("%w: %s on %s: there is no connection at the moment: %w", store.ErrUnavailable, what, s.address, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled): // so says a cluster without a leader, too
		return fmt.Errorf("%w: %s on %s: nobody answers for JetStream: its servers have no leader, or were started without -js: %w", store.ErrUnavailable, what, s.address, err)
	}
	return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
}

// hosts is where servers are, without user and password.
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

// What follows finds what the stored form has no room for, before any I/O.

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

// bounds are those of a claim.
var bounds = store.Bounds{Min: minTTL, Max: maxTTL, On: "NATS"}

func checkClaim(c *store.Claim) error {
	if c.Delay > 0 {
		return fmt.Errorf("%w: %q: a lock delay: NATS does not tell for long when a session ended", store.ErrUnsupported, c.Name)
	}
	return bounds.CheckClaim(c)
}
