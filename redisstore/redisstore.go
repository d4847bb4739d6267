// Package redisstore keeps locks in Redis, or in a server that speaks its
// protocol and runs its scripts (Valkey): a single server, one behind
// Sentinel, or a Cluster.
//
// # Stored form
//
// A string key a name: the prefix, then the name between braces, so that a
// name is one slot of a cluster ("holdfast:{invoice/42}"). In a name the bytes
// "%", "{" and "}" are written as "%25", "%7B" and "%7D".
//
// The value begins with "hf" and the version of the form, "1". The newest
// token follows, then the entries in their order; none, when the name is idle.
// Numbers are little-endian; instants are microseconds of the server's clock.
// An entry is
//
//	token, since, expires   float64 each; 0, 0 and the end of the place while waiting
//	id                      32 hexadecimal digits
//	keep                    float64, microseconds
//	length of owner         uint16
//	length of broken        uint8
//	delay, fence            float64 each
//	limit, weight, want, turn   uint32 each; want is above weight while an
//	                        upgrade is pending; turn is counted by the owner:
//	                        changes of weight, or tokens used of a block
//	n                       uint16, the size of the block of tokens; while
//	                        waiting, how many are wanted
//	flags                   uint8: 1 granted, 2 shown
//	owner, broken
//
// A key lives until a day after the last of its entries is over, by its
// expiry in Redis. Hints are published to the channel of the prefix, "hint:"
// and the first half of the waiter's id, as "token id key"; behind the token of
// a block are "+" and its size, and of an upgrade the token is 0.
//
// # Guarantees
//
// The whole rule, each operation one script, which runs undisturbed: order,
// minimum hold, lock delay, slots, upgrades, blocks of tokens. Time is the server's (TIME). Tokens of a
// name strictly increase as long as its key is there, and beyond that as long
// as the clock of the server that answers is not behind the newest token.
//
// What Redis forgets is not kept: a fail-over to a replica that had not heard
// of the newest grants, a restart without an append-only file that is synced
// on every write, an eviction or a FLUSHALL can let two hold a name at once
// until the TTL of the first is over. Check the token where that matters.
//
// A lone operation goes out at once, on its caller's goroutine and context;
// go-redis notices the end of that only before it sends, so a server that hangs
// keeps the caller for as long as the client's ReadTimeout. Concurrent
// operations are joined into pipelines, at most two under way at a time for
// each server, on a context of the Store's: a caller that leaves does so at
// once and disturbs no other. No operation is sent twice unless the server said
// that it did not run it; the client's own retries are switched off for them.
//
// # Requirements
//
// Redis 6.0 or newer, Valkey 7.2 or newer. A maxmemory-policy of "noeviction"
// (the default). A [redis.Ring] is refused: it moves names to another server
// when one is away, and then two could hold them.
//
// # Rights
//
// A user who may do just this can do all of it, here with the default prefix:
//
//	resetkeys ~holdfast:* resetchannels &holdfast:* -@all
//	+evalsha +eval +get +set +time +publish   to lock
//	+subscribe +ping                          to be woken; without, waiters look now and then
//	+scan                                     to list all names
//	+info                                     for what is checked at start; without, less is
//
// The client needs +select besides for a database other than 0, and on a
// cluster +cluster|slots and +command. To log in needs no right.
package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// DefaultPrefix begins the keys and channels unless Options say otherwise.
const DefaultPrefix = "holdfast:"

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix begins all keys and channels; DefaultPrefix if empty. Stores with
	// different prefixes have nothing to do with each other. It may not contain
	// a brace.
	Prefix string
}

// A Store keeps locks in Redis. Its methods are safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	own     bool   // opened by us, so closed by us
	address string // for people
	prefix  string
	scripts *scripts
	clock   func() int64 // nil but in tests: the server's clock

	pingEvery time.Duration // of mailboxes

	ctx   context.Context // of all exchanges and mailboxes, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	one   lane // to the server; on a cluster there is one for each:
	mu    sync.Mutex
	lanes map[*redis.Client]*lane
}

var _ interface {
	store.Store
	store.Watcher
	store.Looker
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the client, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. The client's
// own options (timeouts, TLS, database) apply. New does no I/O. The error
// matches store.ErrInvalid or store.ErrUnsupported.
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	return newStore(client, o, nil)
}

// Open returns a Store on a client of its own, which Close closes. The URL is
// redis://[user:password@]host[:port][/database], or rediss:// for TLS, with
// the options of [redis.ParseURL] as its query. Open does no I/O. The error
// matches store.ErrInvalid and does not show the URL, which may hold a
// password.
func Open(url string, o *Options) (*Store, error) {
	opts, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(opts)
	s, err := New(client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

func newStore(client redis.UniversalClient, o *Options, clock func() int64) (*Store, error) {
	address, err := addressOf(client)
	if err != nil {
		return nil, err
	}
	s := &Store{
		client: client, address: address, prefix: DefaultPrefix, scripts: live(), clock: clock,
		pingEvery: pingEvery, lanes: map[*redis.Client]*lane{},
	}
	s.one.s = s
	if o != nil && o.Prefix != "" {
		s.prefix = o.Prefix
	}
	if strings.ContainsAny(s.prefix, "{}") {
		return nil, fmt.Errorf("%w: prefix %q of a Redis store: it may not contain a brace", store.ErrInvalid, s.prefix)
	}
	if clock != nil {
		s.scripts = clocked()
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// addressOf tells where the client goes, for people; never a password.
func addressOf(client redis.UniversalClient) (string, error) {
	isNil := client == nil
	switch c := client.(type) {
	case *redis.Client:
		if isNil = c == nil; !isNil {
			o := c.Options()
			if o.Addr == "FailoverClient" { // go-redis's name for it
				return fmt.Sprintf("Redis behind Sentinel, database %d", o.DB), nil
			}
			return fmt.Sprintf("Redis at %s, database %d", o.Addr, o.DB), nil
		}
	case *redis.ClusterClient:
		if isNil = c == nil; !isNil {
			return strings.TrimSpace("Redis cluster " + strings.Join(c.Options().Addrs, ", ")), nil
		}
	case *redis.Ring:
		return "", fmt.Errorf("%w: a redis.Ring moves names to another server when one is away, and then two could hold them: use a Client or a ClusterClient", store.ErrUnsupported)
	}
	if isNil {
		return "", fmt.Errorf("%w: the Redis client is nil", store.ErrInvalid)
	}
	return "Redis", nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond,
		Tokens: "when the name's key is lost and the clock of the server that answers is behind the newest token",
		Loses: "replication is asynchronous: a fail-over can lose the newest grants, a restart what was not synced to disk, " +
			"an eviction or a FLUSHALL everything; then two may hold a name until the TTL of the first is over",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Close implements [store.Store]: it ends the mailboxes and waits for what is
// under way, which the client's timeouts bound. The client of New stays open.
func (s *Store) Close() (err error) {
	s.end()
	if s.own {
		err = s.client.Close()
	}
	s.tasks.Wait()
	return err
}
