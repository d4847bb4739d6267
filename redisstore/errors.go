package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// failed makes an error of the client or the server one for people. what was
// tried names the name or key.
func (s *Store) failed(what string, err error) error {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	var server redis.Error
	if !errors.As(err, &server) {
		return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
	}
	switch {
	case has("NOPERM", "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH ", "No permissions", "The user executing the script"):
		return fmt.Errorf("%w: %s on %s: %w (the package comment of redisstore lists the rights that suffice)", store.ErrDenied, what, s.address, err)
	case has("WRONGTYPE"):
		return fmt.Errorf("%w: %s on %s: the key holds another type of value: it is not of holdfast and was left alone", store.ErrCorrupt, what, s.address)
	case has("CROSSSLOT", "unknown command", "Unknown Redis command", "syntax error"):
		return fmt.Errorf("%w: %s on %s: the server cannot run the script (Redis %d.%d or newer is needed): %w", store.ErrUnsupported, what, s.address, needMajor, needMinor, err)
	}
	return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
}

func (s *Store) corrupt(key string) error {
	return fmt.Errorf("%w: key %q on %s holds a value that is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt, key, s.address)
}

func (s *Store) newer(key string, version byte) error {
	return store.NewerFormError(fmt.Sprintf("key %q on %s", key, s.address), int(version)-'0', int(1))
}

// What follows finds what the stored form has no room for, before any I/O.

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", store.ErrInvalid)
	case len(name) > store.MaxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d are allowed: %.40q…", store.ErrInvalid, len(name), store.MaxName, name)
	}
	return nil
}

func checkTime(name, what string, d, least time.Duration) error {
	if d < least || d > maxTTL {
		return fmt.Errorf("%w: %s of %v for %q: from %v to %v are allowed on Redis", store.ErrInvalid, what, d, name, least, maxTTL)
	}
	return nil
}

func checkRenewal(h *store.Hold) error {
	if len(h.Owner) > math.MaxUint16 {
		return fmt.Errorf("%w: %q: the owner has %d bytes", store.ErrInvalid, h.Name, len(h.Owner))
	}
	return cmp.Or(checkName(h.Name), checkTime(h.Name, "a TTL", h.TTL, minTTL))
}

func checkClaim(c *store.Claim) error {
	switch {
	case c.Limit < 1 || c.Limit > store.Full || c.Weight < 1 || c.Weight > c.Limit:
		return fmt.Errorf("%w: %q: weight %d under a limit of %d: want 1 <= weight <= limit <= %d", store.ErrInvalid, c.Name, c.Weight, c.Limit, int64(store.Full))
	case len(c.Owner) > math.MaxUint16:
		return fmt.Errorf("%w: %q: the owner has %d bytes", store.ErrInvalid, c.Name, len(c.Owner))
	}
	return cmp.Or(checkName(c.Name),
		checkTime(c.Name, "a TTL", c.TTL, minTTL), checkTime(c.Name, "a place", c.Place, 0),
		checkTime(c.Name, "a minimum hold", c.Keep, 0), checkTime(c.Name, "a lock delay", c.Delay, 0))
}
