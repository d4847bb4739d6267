package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A notDurable means that a server cannot report what is on its disk. No command was sent
// to it.
type notDurable struct{ err error }

func (e *notDurable) Error() string { return e.err.Error() }
func (e *notDurable) Unwrap() error { return e.err }

// canSync asks a server, once, whether it can report what is on its disk, if Durable is set.
// It runs before anything is granted there, which would otherwise have to be undone.
func (s *Store) canSync(ctx context.Context, server redis.UniversalClient) error {
	if !s.durable {
		return nil
	}
	if _, known := s.syncs.Load(server); known {
		return nil
	}
	err := server.Do(ctx, "waitaof", 1, 0, 1).Err()
	if why := whyNotDurable(err); why != "" {
		return &notDurable{fmt.Errorf("durable=1: %s: %w", why, err)}
	}
	if err == nil {
		s.syncs.Store(server, true)
	}
	return err
}

// whyNotDurable returns why WAITAOF cannot be used, or "" if the error does not tell.
func whyNotDurable(err error) string {
	var answer redis.Error
	switch {
	case !errors.As(err, &answer):
		return ""
	case strings.Contains(answer.Error(), "unknown command"):
		return "Redis 7.2 or newer is needed"
	case strings.Contains(answer.Error(), "appendonly"):
		return "the server has no append-only file (appendonly yes)"
	}
	return ""
}

// notSynced returns an error unless everything written before the WAITAOF is on the server's
// disk for certain. It can be on the disk even if there is an error.
func notSynced(wait *redis.IntSliceCmd, bound time.Duration) error {
	n, err := wait.Result()
	switch {
	case err != nil:
		return fmt.Errorf("whether it is on the server's disk is not known: %v", err) // %v, not %w: a server error would be definite, but this is indeterminate
	case len(n) < 1 || n[0] < 1: //mutant:redis-not-on-disk
		return fmt.Errorf("it is not on the server's disk within %v (appendfsync always is the quickest)", bound)
	}
	return nil
}
