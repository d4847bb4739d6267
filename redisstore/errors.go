package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// failed turns an error of the client or the server into one of package store. what is the
// operation and its name or key.
func (s *Store) failed(what string, err error) error {
	if no := (*notDurable)(nil); errors.As(err, &no) {
		return fmt.Errorf("%w: %s on %s: %w", store.ErrUnsupported, what, s.address, err)
	}
	text := err.Error()
	var server redis.Error
	if !errors.As(err, &server) {
		return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
	}
	err = redisinfo.WithoutScript(err)
	switch {
	case forbids(text), has(text, "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH "):
		return fmt.Errorf("%w: %s on %s: %w", store.ErrDenied, what, s.address, err)
	case has(text, "WRONGTYPE"):
		return fmt.Errorf("%w: %s on %s: the key holds another type of value: it was not written by holdfast and was not changed", store.ErrCorrupt, what, s.address)
	case has(text, "CROSSSLOT", "unknown command", "Unknown Redis command", "syntax error"):
		return fmt.Errorf("%w: %s on %s: the server cannot run the script (Redis %d.%d or newer is needed): %w", store.ErrUnsupported, what, s.address, needMajor, needMinor, err)
	}
	if has(text, "holdfast: damaged") {
		return fmt.Errorf("%w: %s on %s: the key holds a value that is damaged: it was not changed; delete it if nothing else uses it", store.ErrCorrupt, what, s.address)
	}
	if has(text, "OOM command not allowed") {
		err = fmt.Errorf("%w (the server's memory is full, so nothing new can be locked until some is free again or its maxmemory is raised; what is held can be renewed and released, by a user who may use PEXPIRE)", err)
	}
	return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
}

// forbids reports whether the server says that this user lacks a right.
func forbids(text string) bool {
	return has(text, "NOPERM", "No permissions", "The user executing the script", "ACL failure in script") //mutant:redis-denied-texts
}

// has reports whether text contains one of the parts.
func has(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

func (s *Store) corrupt(key string) error {
	return fmt.Errorf("%w: key %q on %s holds a value that was not written by holdfast, or is damaged: it was not changed; delete it if nothing else uses it", store.ErrCorrupt, key, s.address)
}

// otherForm returns the error for a value in another version of the format.
func (s *Store) otherForm(key string, have byte) error {
	where := fmt.Sprintf("key %q on %s", key, s.address)
	if have >= '0' && have < '0'+version {
		return fmt.Errorf("%w: %s is of stored form %d, which was never released, and this program knows %d: it was not changed; delete it once no older program uses it", store.ErrUnsupported, where, have-'0', version)
	}
	return store.NewerFormError(where, int(have)-'0', version)
}

// bounds are the limits of the stored format.
var bounds = store.Bounds{Min: minTTL, Max: maxTTL, On: "Redis"}
