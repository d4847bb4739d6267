package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// rights tells whether this user may lock. It sends the commands without which there is
// no lock, in a form that changes nothing: the server looks whether the user may run them
// before all else. Only HSET is not among them, as it cannot be run without writing, and
// PUBLISH, without which waiters poll. ACL DRYRUN would tell the same, to who has the
// right to ask for it, which no lock needs.
func (s *Store) rights(ctx context.Context, server redis.Cmdable) store.Finding {
	f := store.Finding{About: "rights", Found: "this user may run the commands that locks need"}
	pipe := server.Pipeline()
	key := s.key("holdfast doctor " + store.NewProcess().String())
	for _, args := range [][]any{
		{"evalsha", strings.Repeat("0", 40), 1, key}, {"eval", "return 0", 1, key},
		{"mget", key}, {"exists", key}, {"set", key, "", "XX"},
		{"hmget", key, "x"}, {"hdel", key, "x"}, {"del", key}, {"pexpire", key, 1},
	} {
		pipe.Do(ctx, args...)
	}
	sent, err := pipe.Exec(ctx)
	if answered := redis.Error(nil); err != nil && !errors.As(err, &answered) {
		f.Err = s.failed("try the commands that locks need", err)
		return f
	}
	var missing []string
	for _, c := range sent {
		err := c.Err()
		switch {
		case err == nil || !forbids(err.Error()):
		case has(err.Error(), "keys", " a key"): // to some names only
			f.Warning = true
			f.Found = fmt.Sprintf("this user may not use every key below %s*: names outside of its rights are refused to it", s.prefix)
		default:
			missing = append(missing, "+"+c.Name())
		}
	}
	if len(missing) > 0 { //mutant:redis-rights-are-checked
		slices.Sort(missing)
		f.Err = fmt.Errorf("%w: %s: this user cannot lock, it lacks %s (the package comment of redisstore lists the rights that suffice)", store.ErrDenied, s.address, strings.Join(missing, " "))
		f.Run = "redis-cli ACL SETUSER NAME " + strings.Join(missing, " ")
	}
	return f
}
