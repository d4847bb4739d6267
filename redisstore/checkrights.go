package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// rights reports whether this user may lock. It sends the commands that locks need, in a form
// that changes nothing: the server checks the user's rights first. HSET is left out because it
// always writes. ACL DRYRUN would return the same, but needs a right that locks do not need.
func (s *Store) rights(ctx context.Context, server redis.Cmdable) store.Finding {
	f := store.Finding{About: "rights", Found: "this user may run the commands that locks need"}
	pipe := server.Pipeline()
	me := store.NewProcess() // nothing listens to its channel
	key := s.key("holdfast doctor " + me.String())
	for _, args := range [][]any{
		{"evalsha", strings.Repeat("0", 40), 1, key}, {"eval", "return 0", 1, key},
		{"mget", key}, {"exists", key}, {"set", key, "", "XX"},
		{"hmget", key, "x"}, {"hdel", key, "x"}, {"del", key}, {"pexpire", key, 1},
		{"time"}, {"publish", s.channel(me), ""},
	} {
		pipe.Do(ctx, args...)
	}
	sent, err := pipe.Exec(ctx)
	if answered := redis.Error(nil); err != nil && !errors.As(err, &answered) {
		f.Found, f.Err = "", s.failed("try the commands that locks need", err)
		return f
	}
	missing, wakes := []string(nil), true
	for _, c := range sent {
		err := c.Err()
		switch {
		case err == nil || !forbids(err.Error()):
		case c.Name() == "publish": // locks work without it
			wakes = false
		case has(err.Error(), "keys", " a key"): // allowed for some names only
			f.Warning = true
			f.Found = fmt.Sprintf("this user may not use every key below %s*: all other names are refused", s.prefix)
		default:
			missing = append(missing, "+"+c.Name())
		}
	}
	if len(missing) > 0 { //mutant:redis-rights-are-checked
		slices.Sort(missing)
		f.Found = ""
		f.Err = fmt.Errorf("%w: %s: this user cannot lock, it lacks %s", store.ErrDenied, s.address, strings.Join(missing, " "))
		f.Run = s.grant(missing...)
		return f
	}
	if !wakes { //mutant:redis-waking-is-checked
		f.Found += ", and lacks +publish or the channels " + s.prefix + "*, without which waiters poll"
		f.Run = s.grant("+publish", "&"+s.prefix+"*")
	}
	return f
}

// A deafError means that this user may not subscribe. Run returns the command with which an
// administrator can fix that; the doctor command subscribes itself and shows it. Check does not
// test subscribing, because that would cost each process a connection.
type deafError struct {
	error
	run string
}

func (e *deafError) Unwrap() error { return e.error }
func (e *deafError) Run() string   { return e.run }

// user returns the name with which the client logs in.
func (s *Store) user() string {
	user := ""
	switch c := s.client.(type) {
	case *redis.Client:
		user = c.Options().Username
	case *redis.ClusterClient:
		user = c.Options().Username
	}
	return cmp.Or(user, "default")
}

// grant returns the command that gives this user the rights.
func (s *Store) grant(rights ...string) string {
	args := []string{"redis-cli ACL SETUSER", quoted(s.user())} //mutant:redis-grant-names-its-user
	for _, r := range rights {
		args = append(args, quoted(r))
	}
	return strings.Join(args, " ")
}

// quoted returns word, quoted for a shell if needed.
func quoted(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+-_.:@/|", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
