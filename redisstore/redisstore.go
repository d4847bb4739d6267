// Package redisstore keeps locks in Redis, or in a server that speaks its
// protocol and runs its scripts (Valkey): a single server, one behind
// Sentinel, or a Cluster.
//
// # Stored form
//
// There is one key for each name: the prefix, then the name between braces, so that a
// name is one slot of a cluster ("holdfast:{invoice/42}"). In a name the bytes
// "%", "{" and "}" are written as "%25", "%7B" and "%7D".
//
// The key is a string while the name has few entries, twelve at most, and a hash from then on until it has no
// holders and no waiters.
//
// The string begins with "hf" and the version of the format, "3". The newest token follows, then the entries in
// their order; none if the name is idle. Numbers are little-endian; instants are microseconds of the server's
// clock. An entry is
//
//	token, since, expires   float64 each; 0, 0 and the end of the position while waiting
//	id                      32 hexadecimal digits
//	minimum hold            float64, microseconds
//	length of owner         uint16
//	length of reason        uint8
//	lock delay              float64, microseconds
//	upgrade token           float64
//	limit, weight, want, turn   uint32 each; want is above weight while an
//	                        upgrade is pending; turn is counted by the owner:
//	                        changes of weight, or tokens used of a block
//	n                       uint16, the size of the block of tokens; while
//	                        waiting, how many are wanted
//	flags                   uint8: 1 granted, 2 shown, 4 kept by a session
//	owner, reason           the reason of a hold is why it was broken, that of a
//	                        waiter, and of a hold whose upgrade is pending, why it
//	                        asks the other holders to give up; with a byte 1
//	                        before it a hold was broken with now, and blocks
//	                        no claim
//
// The hash has the field "h": the beginning of the string, then how many waiters ask the holders to give up
// (uint32), the weight of all holds (float64), the number of holds and of entries (uint32), the position of the
// next entry, the earliest end of an entry and the instant until which the key lives, less the retention
// (float64), the height of the tree and the length of an id (uint8), and the id of the hold whose upgrade is
// pending, if there is one; then for each limit the limit, how many entries have it and how many of those hold
// (uint32). Each entry is a field named by its id: its position (float64), which grows in the order of the
// queue, and the entry as above. The field "#" and the position has the id. The field "x" has the holds that
// were broken with now, each as in the field of an id: no sum, and no other field, counts them. The fields "t",
// a level, ":" and a number are the nodes of a tree over the positions, 16 children each: of each child the
// earliest end of an entry (float64), then of each how many entries there are, then how many waiters of those
// ask the holders to give up (uint32). So an operation reads and writes its own entry, the nodes above it, and
// the entries that it grants, however many wait.
//
// A session keeps holds that were alone on their names when they went into it: such an entry has the session's
// id, 8 bytes, in place of expires. It is a key of its own, the prefix, "session:" and the id in hexadecimal
// digits ("holdfast:session:00c0ffee00c0ffee"): a string of "hs1", when the session ends, and its latest
// possible end (float64 each).
//
// A key lives until a day after the last of its entries has ended, or for as long as [Options].TokenRetention
// says, by its expiry in Redis; a hash up to a minute longer, and one whose hold was in a session up to two
// hours. The key of a session lives for four. Notifications are published to the channel of the prefix, "hint:"
// and the first half of the waiter's id, as "token id key". The token of a block is followed by "+" and the
// block's size. For an upgrade, and for a hold that is asked to give up, the token is 0.
//
// Changes by elections (claims and holds with Announce, see package store) are published as an empty message to
// a channel with the name of the key. So is each break.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store], each operation one script, which runs
// atomically: order, minimum hold, lock delay, slots with several totals, upgrades, asking to give up, blocks of
// tokens. A TTL is from 100 ms to 365 days. Time is the server's (TIME). Tokens of a name strictly increase
// while its key exists, and after that while the clock of the answering server is not behind the newest token:
// it would have to be behind by more than the key has outlived the last entry ([Options].TokenRetention).
//
// Holds that Redis forgets are lost: after a restart without an append-only file that is synced on every write,
// or without [Options].Durable, after an eviction or a FLUSHALL, two can hold a name at once until the TTL of
// the first has passed. The loss of a session's key loses all that it keeps, up to 500 holds. Check the token
// where that matters.
//
// # Replicas and fail-overs
//
// Redis answers before its replicas have received a write. So a fail-over, by Sentinel, by a Cluster or by an
// operator, to a replica that had not received the newest grants loses them: their holders go on until their
// next renewal is refused or their lease expires, and meanwhile the name can be granted to another. The other
// has the larger token, even if the record of the name was lost, unless the clock of the new server is behind
// the newest token as well. A primary that was cut off from its replicas, or that has come back and does not
// know yet that it was replaced, goes on granting names that the new one grants too. A holder whose grant was
// lost learns of it with its next renewal, whether a session keeps its hold or not. A release that was lost
// keeps its name taken for a TTL, or for three if a session kept the hold.
//
// Stored instants are by the clock of the server that wrote them. After a fail-over, or after a slot was moved,
// another server reads them: if its clock is ahead, holds expire that much too early, and if it is behind, that
// much later. Keep the clocks of all servers in step (holdfast doctor shows them).
//
// With [Options].Replicas a grant is reported only once so many replicas have it (WAIT), which costs a round
// trip between servers. With as many as there are, neither a fail-over nor a primary that was cut off grants a
// name to a second holder; but while fewer are connected nothing is granted or renewed, so have one more replica
// than that if one may fail. WAIT waits for the memory of the replicas: a restart of all servers loses as much
// as without it, unless [Options].Durable is set too: then a grant is also on the disk of the server before it
// is reported.
//
// On a Cluster each name is in one slot, and moves with it as a whole. Commands follow redirects, and are joined
// per server: one that is down does not delay the others. Replicas are never read, whatever the client's options
// say. Notifications come through any one server, and through another one soon after that has left. When a
// server does not answer, the Store makes the client find out at once which server has replaced it. Behind
// Sentinel go-redis does that. It stays with a hung Sentinel for as long as its questions to that take longer
// than its DialTimeout. Because of that a client made by Open has MaxRetries of -1 and a ReadTimeout of 2 s, and
// so should a FailoverClient that you pass to New.
//
// # Operations
//
// On one server and behind Sentinel, holds that one call renews, at least sixteen with one TTL, are put into
// sessions of up to 500. From then on one script renews a session by writing only that, and only reads the
// names. A session is renewed only together with everything that it keeps, so each hold expires when it would by
// itself. A hold that has waiters, is shared, has changed, or has a TTL above 15 minutes is renewed by a script
// and a write of its own, as are all holds on a Cluster, where the names of a process are on several servers.
//
// A lone operation goes out at once, on its caller's goroutine and context; go-redis checks that context only
// before it sends, so a hung server keeps the caller for up to the client's ReadTimeout. Concurrent operations
// are joined into pipelines, at most two under way at a time for each server, on a context of the Store's: a
// caller whose context ends returns at once and disturbs no other. No operation is sent twice unless the server
// said that it did not run it; the client's own retries are switched off for them.
//
// # Requirements
//
// Redis 6.0 or newer, Valkey 7.2 or newer. A maxmemory-policy of "noeviction" (the default). With that, a server
// whose memory is full (maxmemory) grants nothing new and adds no waiters: the error is ErrUnavailable and says
// why. Holds are still renewed, changed and released, and those that wait already are granted. A [redis.Ring] is
// refused: it moves names to another server when one is down, and then two could hold them.
//
// # Rights
//
// These rights are enough, here with the default prefix:
//
//	resetkeys ~holdfast:* resetchannels &holdfast:* -@all
//	+evalsha +eval +mget +exists +set +time +publish   to lock
//	+hmget +hset +hdel +del +pexpire          once many wait for a name, or have it
//	+hgetall                                  to list such a name
//	+subscribe +unsubscribe +ping             to be woken; without, waiters and observers of elections poll
//	+scan                                     to list all names
//	+info                                     for what is checked at start; without, less is
//
// The client also needs +select for a database other than 0, +wait if replicas must confirm, +waitaof if the
// disk must, and on a cluster +cluster|slots, +command and, while slots are moved, +asking. Logging in needs no
// right. Sentinels must allow +sentinel|get-master-addr-by-name, +sentinel|sentinels, +subscribe and +ping.
//
// A user may be limited to some names, as with ~holdfast:{jobs*. It then also needs ~holdfast:session:* (not on
// a cluster): without it an operation on a name is [store.ErrDenied] while the session of another user keeps a hold on it.
// To observe the elections of those names, and to announce them, it needs the same pattern for channels, &holdfast:{jobs*, and &holdfast:hint:*
// for all else.
package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisnames"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultPrefix begins the keys and channels unless Options say otherwise.
const DefaultPrefix = "holdfast:"

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// The range of Options.TokenRetention.
const (
	minRetention = time.Minute
	maxRetention = 365 * 24 * time.Hour
)

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix begins all keys and channels; DefaultPrefix if empty. Stores with
	// different prefixes have nothing to do with each other. It may not contain
	// a brace.
	Prefix string

	// Replicas is how many replicas must have confirmed a grant, a renewal or a change
	// of weight before it is reported (WAIT). If they have not within half a second
	// the outcome is indeterminate: the engine asks again, and in the end releases.
	// With 0, the default, it waits for none. With the number of all replicas, a
	// fail-over to any of them loses no reported hold; with fewer, a fail-over to a
	// replica that had not confirmed still can.
	Replicas int

	// Durable has a grant, a renewal or a change of weight reported only once it is on
	// the disk of the server (WAITAOF), so that a restart of the server, or of the
	// machine, loses none. It needs Redis 7.2 or Valkey 7.2, and an append-only file
	// (appendonly yes): otherwise each operation is ErrUnsupported. With appendfsync
	// always it costs a sync; with everysec each grant takes up to a second. An
	// operation that is not on disk in time, 1.5 s at most, is indeterminate, as with
	// Replicas.
	Durable bool

	// TokenRetention is how long the newest token of a name is kept after the last
	// entry of the name has ended: about 150 bytes a name. From 1 minute to 365
	// days; 0 means a day (store.TokenRetention). A name unused for longer goes on
	// with a token from the clock of the server. So keep it longer than any
	// server's clock can be set back, or be behind that of a server that it
	// replaces: otherwise a token can be smaller than an older one, and a resource
	// that checks tokens admits a late writer and refuses the holder. Set the same
	// in all stores that share names: the last write of a name decides.
	TokenRetention time.Duration

	// Dialer makes the connections of the client that Open makes, for tunnels
	// and the like; nil: the net package does. addr is as the URL or a server
	// names it. Where the URL asks for TLS that is spoken on what Dialer
	// returns. For New it is an ErrInvalid: its client has its own.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Store keeps locks in Redis. Its methods are safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	own     bool   // opened by us, so closed by us
	address string // for people
	prefix  string
	scripts *scripts
	clock   func() int64 // nil but in tests: the server's clock

	retention   time.Duration // of tokens
	replicas    int           // that must confirm
	durable     bool          // the server's disk must confirm
	syncs       sync.Map      // the servers that can report what is on their disk
	confirmTime time.Duration // how long replicas are waited for
	syncTime    time.Duration // how long the disk is
	pingEvery   time.Duration // of mailboxes

	ctx   context.Context // of all exchanges and mailboxes, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	watched func() *redisnames.Names // watched names

	hasSessions bool // all names are on one server
	sessions    sessions

	one       lane // to the server; on a cluster there is one for each:
	mu        sync.Mutex
	lanes     map[string]*lane // by address
	reloading atomic.Bool      // the client is finding out which server has which names
}

var _ interface {
	store.Store
	store.Watcher
	store.NameWatcher
	store.Poller
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the client, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. The client's
// own options (timeouts, TLS, database) apply. New does no I/O. The error matches
// [store.ErrInvalid], or [store.ErrUnsupported] for a [redis.Ring].
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	return newStore(client, o, nil, usual)
}

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")
}

// Open returns a Store on a client of its own, which Close closes. The URL is
// one of
//
//	redis://[user:password@]host[:port][/database]
//	redis+cluster://[user:password@]host[:port][,host[:port]…]
//	redis+sentinel://[user:password@]host[:port][,host[:port]…]/master[/database]
//
// or the same with rediss for TLS. The hosts of a cluster are some of its servers,
// which name the others; those of redis+sentinel are Sentinels, and user and
// password are those of the servers that they watch. The query may have
//
//	replicas=n                             Options.Replicas, unless that is set
//	durable=1                              Options.Durable
//	token_retention=1h                     Options.TokenRetention, unless that is set
//	sentinel_username, sentinel_password   what the Sentinels themselves ask for
//	skip_verify=true                       of TLS: any certificate will do
//
// and the options of [redis.ParseURL], [redis.ParseClusterURL] and
// [redis.ParseFailoverURL], except those that read from replicas. Open does no I/O.
// The error matches store.ErrInvalid and does not show the URL, which may hold a
// password.
func Open(url string, o *Options) (*Store, error) {
	var own Options
	if o != nil {
		own = *o
	}
	t, err := openURL(url, own.Dialer)
	if err != nil {
		return nil, err
	}
	own.Dialer = nil
	own.Replicas = cmp.Or(own.Replicas, t.replicas)
	own.Durable = own.Durable || t.durable
	own.TokenRetention = cmp.Or(own.TokenRetention, t.retention)
	s, err := New(t.client, &own)
	if err != nil {
		t.client.Close()
		return nil, err
	}
	s.own, s.address = true, t.address
	return s, nil
}

func newStore(client redis.UniversalClient, o *Options, clock func() int64, sh shape) (*Store, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	s := &Store{
		client: client, address: addressOf(client), prefix: cmp.Or(o.Prefix, DefaultPrefix), clock: clock,
		retention: cmp.Or(o.TokenRetention, store.TokenRetention), replicas: o.Replicas, durable: o.Durable, confirmTime: confirmTime, syncTime: syncTime, pingEvery: pingEvery, lanes: map[string]*lane{},
	}
	s.one.s, s.watched = s, sync.OnceValue(s.newNames)
	_, s.hasSessions = client.(*redis.Client) //mutant:redis-session-on-cluster
	s.sessions.fewest, s.sessions.now, s.sessions.of = fewestTogether, store.Now, map[store.ID]place{}
	switch {
	case strings.ContainsAny(s.prefix, "{}"):
		return nil, fmt.Errorf("%w: prefix %q of a Redis store: it may not contain a brace", store.ErrInvalid, s.prefix)
	case o.Replicas < 0:
		return nil, fmt.Errorf("%w: %d replicas of a Redis store: want 0 or more", store.ErrInvalid, o.Replicas)
	case s.retention < minRetention || s.retention > maxRetention:
		return nil, fmt.Errorf("%w: TokenRetention %v of a Redis store: want at least %v and at most %v", store.ErrInvalid, s.retention, minRetention, maxRetention)
	case o.Dialer != nil:
		return nil, fmt.Errorf("%w: Options.Dialer of a Redis store is for Open: the client that New is given has its own", store.ErrInvalid)
	}
	if s.scripts = live(); clock != nil || s.retention != store.TokenRetention || sh != usual {
		s.scripts = load(s.retention, clock != nil, sh)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// checkClient refuses a client that cannot keep locks.
func checkClient(client redis.UniversalClient) error {
	isNil := client == nil
	switch c := client.(type) {
	case *redis.Client:
		isNil = c == nil
	case *redis.ClusterClient:
		isNil = c == nil
	case *redis.Ring:
		return fmt.Errorf("%w: a redis.Ring moves names to another server when one is away, and then two could hold them: use a Client or a ClusterClient", store.ErrUnsupported)
	}
	if isNil {
		return fmt.Errorf("%w: the Redis client is nil", store.ErrInvalid)
	}
	return nil
}

// addressOf says which server the client uses, for people; never a password.
func addressOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Addr == "FailoverClient" { // go-redis's name for it
			return fmt.Sprintf("Redis behind Sentinel, database %d", o.DB)
		}
		return fmt.Sprintf("Redis at %s, database %d", o.Addr, o.DB)
	case *redis.ClusterClient:
		return strings.TrimSpace("Redis cluster " + strings.Join(c.Options().Addrs, ", "))
	}
	return "Redis"
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	d := store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond,
		Tokens: "when the name's key is lost and the clock of the server that answers is behind the newest token",
		Loses: "replication is asynchronous: a fail-over can lose the newest grants, a restart what was not synced to disk, " +
			"an eviction or a FLUSHALL everything; then two may hold a name until the first one's TTL has passed",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
		Lacks:   map[store.Promise]string{},
	}
	if s.replicas > 0 {
		d.Loses = fmt.Sprintf("a fail-over to a replica that is not among the %d which have confirmed a grant can lose it, a restart what was not synced to disk, "+
			"an eviction or a FLUSHALL everything; then two may hold a name until the first one's TTL has passed", s.replicas)
		d.Lacks[store.PromiseNotificationToken] = "replicas have not confirmed what a notification would tell"
	}
	if s.durable {
		d.Loses = strings.NewReplacer(", a restart what was not synced to disk", "", "a restart what was not synced to disk, ", "").Replace(d.Loses)
		d.Forgets = slices.DeleteFunc(d.Forgets, func(a store.Accident) bool { return a == store.AccidentRestart })
		d.Lacks[store.PromiseNotificationToken] = "what a notification would tell may not be on the server's disk"
	}
	return d
}

// confirms reports whether a grant must be confirmed before it is reported.
func (s *Store) confirms() bool { return s.replicas > 0 || s.durable }

// Close implements [store.Store]: it ends the mailboxes and waits for
// operations under way, which the client's timeouts bound. The client of New
// stays open.
func (s *Store) Close() (err error) {
	s.end()
	if s.own {
		err = s.client.Close()
	}
	s.tasks.Wait()
	return err
}
