// Package redisguard checks fencing tokens at Redis keys that a lock protects. Each call
// runs one script, which refuses a token older than the newest one seen and otherwise does
// the work, atomically.
//
//	err := redisguard.Do(ctx, client, lease, "SET", "invoice:42", "sent").Err()
//
// See package [github.com/holdfast-go/holdfast/guard] for the rule. A late holder gets a
// [guard.StaleError]. All writers of these keys must use this package, because Redis itself
// has no fences.
//
// # Stored form
//
// The newest token of a name is kept, as decimal digits, under the key
// holdfast:fence:{TAG}:NAME. TAG is the hash tag of the guarded keys, or the whole key
// if it has none, so on a Cluster the fence is in the slot of the keys that it guards.
// Each hash tag is thus a resource of its own, with a fence of its own: a holder raises
// it with its first call on a key of that tag.
//
// A fence has no expiry, because without it a late holder could write. You may delete it
// together with the keys that it guards. The server must not evict it: set maxmemory-policy
// to noeviction, or to a policy that evicts only keys with an expiry.
//
// # Guarantees
//
// Those of the server: a fail-over or a restart can lose the fence together with the
// latest writes.
//
// # Rights
//
// Keys holdfast:fence:* and the guarded keys; the commands EVALSHA, EVAL, GET and SET, and
// the commands that you run.
package redisguard

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/store/embedded"
)

//go:embed check.lua
var files embed.FS

// check is prepended to every script.
var check = embedded.Text("check.lua", files)

// A Script is a Lua script of yours that runs only if the token is not too old. It is safe
// for concurrent use.
type Script struct{ script *redis.Script }

// NewScript makes a Script from Lua source. KEYS and ARGV in it are those given to Run. The
// source cannot begin with a #! line.
func NewScript(src string) *Script { return &Script{redis.NewScript(check + src)} }

// Run runs the script unless the keys have seen a newer token. The check and the script are
// one atomic step. At least one key is needed, and all keys must have the same hash tag or be
// the same key, even on a single server.
//
// The error of the result is a [guard.StaleError] if the token is too old; nothing was done
// then. It matches [holdfast.ErrInvalid], or is an error of [guard.Raises], if the keys, the
// client or the lease are unsuitable; nothing was sent then. It matches
// [holdfast.ErrCorrupt] if the value at the fence's key is not a fence. Other errors come
// from the script or the client. A client that retries unanswered commands, as go-redis
// does, may run the script twice, like any command.
//
// The client can be any go-redis client, but not a pipeline.
func (s *Script) Run(ctx context.Context, client redis.Scripter, l guard.Lease, keys []string, args ...any) *redis.Cmd {
	raises, err := guard.Raises(l)
	var fence string
	if err == nil {
		fence, err = fenceKey(l.Name(), keys)
	}
	if _, pipeline := client.(redis.Pipeliner); err == nil && pipeline { //mutant:redisguard-no-pipeline
		err = fmt.Errorf("guard %q: %w: a pipeline cannot say what became of a check before the next command", l.Name(), holdfast.ErrInvalid)
	}
	if err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	token := l.Token() // after Raises: a token from before an upgrade is too small for a write
	raise := "0"
	if raises {
		raise = "1"
	}
	keys = append(keys[:len(keys):len(keys)], fence) //mutant:redisguard-keys-copied
	args = append(args[:len(args):len(args)], strconv.FormatInt(token, 10), raise)
	cmd := s.script.Run(ctx, client, keys, args...)
	if err := cmd.Err(); err != nil {
		cmd.SetErr(refusal(err, l, token, fence))
	}
	return cmd
}

// refusal turns the errors of check.lua into the documented ones.
func refusal(err error, l guard.Lease, token int64, fence string) error {
	text, stale := strings.CutPrefix(err.Error(), "HOLDFASTSTALE ")
	if newest, bad := strconv.ParseInt(text, 10, 64); stale && bad == nil {
		return &guard.StaleError{Name: l.Name(), Where: "key " + fence, Token: token, Fence: newest}
	}
	if stale || strings.HasPrefix(err.Error(), "HOLDFASTCORRUPT ") {
		return fmt.Errorf("guard %q by key %s: %w: what is stored there is no fence", l.Name(), fence, holdfast.ErrCorrupt)
	}
	return err
}

var command = NewScript(`return redis.call(table.remove(ARGV, 1), KEYS[1], unpack(ARGV))`)

// Do runs one command whose first argument is its only key, such as SET, HSET, INCR or
// GET, unless the key has seen a newer token. A command that reads is guarded as well, and
// raises the fence before it reads. See [Script.Run] for the errors.
func Do(ctx context.Context, client redis.Scripter, l guard.Lease, cmd, key string, args ...any) *redis.Cmd {
	return command.Run(ctx, client, l, []string{key}, append([]any{cmd}, args...)...)
}

var nothing = NewScript(`return 1`)

// Check raises the fence of all keys with the hash tag of this key; with a read lease it
// only compares. Call it before you read keys by other means than this package. See
// [Script.Run] for the errors.
func Check(ctx context.Context, client redis.Scripter, l guard.Lease, key string) error {
	return nothing.Run(ctx, client, l, []string{key}).Err()
}

// Forget deletes the fence of a name for all keys with the hash tag of this key. Call it
// when you delete what the lock protects there: from then on any token passes. See
// [guard.Dialect.Forget] for when that is safe. Errors: holdfast.ErrInvalid if the key can
// have no fence, with nothing sent; otherwise the client's.
func Forget(ctx context.Context, client redis.Cmdable, name, key string) error {
	fence, err := fenceKey(name, []string{key}) //mutant:redisguard-forgotten-name
	if err != nil {
		return err
	}
	return client.Del(ctx, fence).Err() //mutant:redisguard-forgets
}

// fenceKey returns the key of the name's fence for these keys.
func fenceKey(name string, keys []string) (string, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("guard %q: %w: %s", name, holdfast.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if len(keys) == 0 {
		return "", bad("a guarded script needs the keys that it writes")
	}
	first, ok := hashTag(keys[0])
	if !ok {
		return "", bad("no fence can have the slot of the key %q: give it a hash tag, as in {invoice}:42", keys[0])
	}
	for _, key := range keys[1:] {
		if tag, ok := hashTag(key); !ok || tag != first { //mutant:redisguard-one-slot
			return "", bad("the keys %q and %q have not the same hash tag, as {invoice:42}:state and {invoice:42}:log have: one fence cannot guard both", keys[0], key)
		}
	}
	return "holdfast:fence:{" + first + "}:" + name, nil //mutant:redisguard-fence-slot
}

// hashTag returns the part of the key that a Cluster hashes to a slot: the text in the
// first braces if it is not empty, otherwise the whole key. It returns false if that
// text cannot be put into braces.
func hashTag(key string) (string, bool) {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" { //mutant:redisguard-empty-braces
			return tag, true
		}
	}
	return key, key != "" && !strings.Contains(key, "}")
}
