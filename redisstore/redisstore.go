// Package redisstore keeps locks in Redis, or in a server that speaks its
// protocol and runs its scripts (Valkey): a single server, a primary behind
// Sentinel, or a Cluster.
//
// # Stored form
//
// Each name has one key: the prefix, then the name in braces, so that a name is in one
// slot of a cluster ("holdfast:{invoice/42}"). In a name the bytes "%", "{" and "}" are
// written as "%25", "%7B" and "%7D".
//
// The key is a string while the name has at most twelve entries, then a hash until the name has no holders and no
// waiters.
//
// The string begins with "hf" and the version of the format, "3". The newest token follows, then the entries in
// order; none if the name is idle. Numbers are little-endian; times are microseconds of the server's clock. An
// entry is
//
//	token, since, expires   float64 each; 0, 0 and the end of the position while waiting
//	id                      32 hexadecimal digits
//	minimum hold            float64, microseconds
//	length of owner         uint16
//	length of reason        uint8
//	lock delay              float64, microseconds
//	upgrade token           float64
//	limit, weight, want, turn   uint32 each; want is above weight while an
//	                        upgrade is pending; turn is a counter of the owner:
//	                        changes of weight, or tokens used of a block
//	n                       uint16, the size of the block of tokens; while
//	                        waiting, how many are wanted
//	flags                   uint8: 1 granted, 2 shown, 4 kept by a session
//	owner, reason           the reason of a hold is why it was broken; that of a
//	                        waiter, or of a hold with a pending upgrade, is why
//	                        it asks the other holders to give up; a byte 1 before
//	                        the reason: the hold was broken with now, and blocks
//	                        no claim
//
// The hash has the field "h": the beginning of the string, then how many waiters ask the holders to give up
// (uint32), the weight of all holds (float64), the number of holds and of entries (uint32), the position of the
// next entry, the earliest end of an entry and the time until which the key lives, less the retention (float64),
// the height of the tree and the length of an id (uint8), and the id of the hold whose upgrade is pending, if
// any; then for each limit the limit, how many entries have it and how many of those are holds (uint32). Each
// entry is a field named by its id: its position (float64), which grows in queue order, and the entry as above.
// The field "#" plus a position has the id. The field "x" has the holds that were broken with now, each as in the
// field of an id; no sum and no other field counts them. The fields "t", a level, ":" and a number are the nodes
// of a tree over the positions, with 16 children each: first the earliest end of an entry in each child
// (float64), then for each child how many entries it has, then how many waiters among those ask the holders to
// give up (uint32). So an operation reads and writes only its own entry, the nodes above it, and the entries that
// it grants, however many claims wait.
//
// A session keeps holds that were alone on their names when they were added to it. The entry of such a hold has
// the session's id, 8 bytes, in place of expires. A session is a key of its own: the prefix, "session:" and the
// id in hexadecimal digits ("holdfast:session:00c0ffee00c0ffee"). Its value is a string of "hs1", the end of the
// session, and the latest end it can ever have (float64 each).
//
// A key expires in Redis a day after its last entry has ended, or after [Options].TokenRetention; a hash up to a
// minute later, and one whose hold was in a session up to two hours later. The key of a session lives for four
// hours. Notifications are published to the channel of the prefix, "hint:" and the first half of the waiter's id,
// as "token id key". The token of a block is followed by "+" and the size of the block. For an upgrade, and for a
// hold that is asked to give up, the token is 0.
//
// Changes by elections (claims and holds with Announce, see package store), and all breaks, are published as an
// empty message to the channel with the name of the key.
//
// # Guarantees
//
// All of package [github.com/holdfast-go/holdfast/store], with each operation one script, which runs atomically:
// order, minimum hold, lock delay, slots with several totals, upgrades, asking to give up, blocks of tokens. TTLs
// are from 100 ms to 365 days. Time is the server's (TIME). Tokens of a name strictly increase while its key
// exists. After that they do unless the clock of the answering server is behind the newest token: it would have
// to be behind by more than the key has outlived the last entry ([Options].TokenRetention).
//
// Holds that Redis forgets are lost. After a restart (unless an append-only file is synced on every write, or
// [Options].Durable is set), an eviction or a FLUSHALL, two can hold a name at once until the TTL of the first has
// passed. If the key of a session is lost, so are all its holds, up to 500. Where that matters, check the token.
//
// # Replicas and fail-overs
//
// Redis answers before its replicas have received a write. So a fail-over (by Sentinel, a Cluster or an operator)
// to a replica that has not received the newest grants loses them. Their holders continue until their next renewal
// is refused or their lease expires, and meanwhile the name can be granted to another claim. That claim gets a
// larger token, even if the record of the name was lost, unless the clock of the new server is behind the newest
// token as well. A primary that is cut off from its replicas, or has come back and does not know yet that it was
// replaced, continues to grant names that the new primary grants too. A holder whose grant was lost learns of it
// with its next renewal, in a session too. After a lost release the name stays taken for a TTL, or for three if a
// session kept the hold.
//
// Stored times are those of the clock of the server that wrote them. After a fail-over, or after a slot was moved,
// another server reads them. If its clock is ahead, holds expire that much too early; if it is behind, that much
// too late. Keep the clocks of all servers in step (holdfast doctor shows them).
//
// With [Options].Replicas a grant is reported only once that many replicas have it (WAIT), which costs a round trip
// between servers. If you set the number of all replicas, neither a fail-over nor a primary that was cut off grants
// a name to a second holder. But while fewer replicas are connected, nothing is granted or renewed, so if one may
// fail, have one replica more than you set. WAIT waits only for the memory of the replicas: a restart of all
// servers loses as much as without it, unless [Options].Durable is also set. Then a grant is on the server's disk
// too before it is reported.
//
// On a Cluster each name is in one slot, and moves with it as a whole. Commands follow redirects and are joined per
// server, so one that is down does not delay the others. Replicas are never read, whatever the client's options
// say. Notifications come through any one server, and through another one soon after that server has left. When a
// server does not answer, the Store makes the client find out at once which server has replaced it. Behind Sentinel
// go-redis does that. But it stays with a hung Sentinel while its questions to it take longer than its DialTimeout.
// So a client made by Open has MaxRetries of -1 and a ReadTimeout of 2 s; give a FailoverClient that you pass to
// New the same.
//
// # Operations
//
// On one server and behind Sentinel, holds that are renewed by one call, at least sixteen with the same TTL, are put
// into sessions of up to 500. From then on one script renews a session: it writes only the session and only reads
// the names. A session is renewed only together with all its holds, so each hold expires when it would on its own.
// A hold that has waiters, is shared, has changed, or has a TTL above 15 minutes is renewed by its own script and
// write. So are all holds on a Cluster, where the names of a process are on several servers.
//
// A lone operation is sent at once, on its caller's goroutine and context. go-redis checks that context only before
// it sends, so a hung server blocks the caller for up to the client's ReadTimeout. Concurrent operations are joined
// into pipelines, at most two at a time for each server, with a context of the Store: a caller whose context ends
// returns at once and does not affect the others. No operation is sent twice unless the server said that it did not
// run it; the client's own retries are switched off for operations.
//
// # Requirements
//
// Redis 6.0 or newer, or Valkey 7.2 or newer, with a maxmemory-policy of "noeviction" (the default). With that
// policy, a server whose memory is full (maxmemory) grants nothing new and adds no waiters: the error is
// ErrUnavailable and says why. Holds are still renewed, changed and released, and claims that wait already are
// granted. A [redis.Ring] is refused: it moves names to another server when one is down, and then two could hold
// them.
//
// # Rights
//
// These rights are enough (with the default prefix):
//
//	resetkeys ~holdfast:* resetchannels &holdfast:* -@all
//	+evalsha +eval +mget +exists +set +time +publish   to lock
//	+hmget +hset +hdel +del +pexpire          for a name that many hold or wait for
//	+hgetall                                  to list such a name
//	+subscribe +unsubscribe +ping             for notifications; without, waiters and observers of elections poll
//	+scan                                     to list all names
//	+info                                     for the checks at start; without, fewer are made
//
// The client also needs +select for a database other than 0, +wait with Replicas, +waitaof with Durable, and on a
// cluster +cluster|slots, +command and, while slots are moved, +asking. Logging in needs no right. Sentinels must
// allow +sentinel|get-master-addr-by-name, +sentinel|sentinels, +subscribe and +ping.
//
// You can limit a user to some names, as with ~holdfast:{jobs*. It then also needs ~holdfast:session:* (not on a
// cluster): without it, an operation on a name is [store.ErrDenied] while the session of another user keeps a hold
// on the name. To observe and announce elections of those names, the user needs the same pattern for channels,
// &holdfast:{jobs*, and &holdfast:hint:* for everything else.
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

// DefaultPrefix is the beginning of all keys and channels unless Options.Prefix is set.
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
	// Prefix is the beginning of all keys and channels; DefaultPrefix if empty. Stores
	// with different prefixes do not share locks. It must not contain a brace.
	Prefix string

	// Replicas is how many replicas must confirm a grant, a renewal or a change of weight
	// before it is reported (WAIT). If they do not within half a second, the outcome is
	// indeterminate: the engine asks again, and in the end releases. The default, 0, waits
	// for no replica. With the number of all replicas, a fail-over to any of them loses no
	// reported hold. With fewer, a fail-over to a replica that had not confirmed still can.
	Replicas int

	// With Durable, a grant, a renewal or a change of weight is reported only once it is on
	// the server's disk (WAITAOF), so a restart of the server or the machine loses none. It
	// needs Redis 7.2 or Valkey 7.2, and an append-only file (appendonly yes): otherwise each
	// operation is ErrUnsupported. With appendfsync always it costs a sync; with everysec each
	// grant takes up to a second. An operation that is not on disk in time, at most 1.5 s, is
	// indeterminate, as with Replicas.
	Durable bool

	// TokenRetention is how long the newest token of a name is kept after its last entry has
	// ended, in about 150 bytes per name. From 1 minute to 365 days; 0 means a day
	// (store.TokenRetention). A name unused for longer continues with a token from the
	// server's clock. So set it longer than any server's clock can be set back, or be behind
	// that of a server that it replaces. Otherwise a token can be smaller than an older one,
	// and a resource that checks tokens then admits a late writer and refuses the holder. Set
	// the same value in all stores that share names: the last write of a name decides.
	TokenRetention time.Duration

	// Dialer makes the connections of the client that Open makes, for tunnels and the like;
	// nil means the net package. addr is the address in the URL or as a server returns it.
	// If the URL asks for TLS, the Store adds TLS on the connection that Dialer returns. New
	// refuses it with ErrInvalid, because its client has its own dialer.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Store keeps locks in Redis. Its methods are safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	own     bool   // opened by this package, which then closes it
	address string // for messages
	prefix  string
	scripts *scripts
	clock   func() int64 // tests only; nil: the server's clock

	retention   time.Duration // of tokens
	replicas    int           // how many must confirm
	durable     bool          // the server's disk must confirm
	syncs       sync.Map      // the servers that can report what is on their disk
	confirmTime time.Duration // how long to wait for replicas
	syncTime    time.Duration // how long to wait for the disk
	pingEvery   time.Duration // of mailboxes

	ctx   context.Context // of all exchanges and mailboxes, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	watched func() *redisnames.Names

	hasSessions bool // all names are on one server
	sessions    sessions

	one       lane // to the server; a cluster has one for each server, in lanes
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

// New returns a Store on the client, which stays yours: the Store never closes it, and it
// must be open while you use the Store. The client's own options (timeouts, TLS, database)
// apply. New does no I/O. The error matches [store.ErrInvalid], or [store.ErrUnsupported]
// for a [redis.Ring].
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	return newStore(client, o, nil, usual)
}

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")
}

// Open returns a Store on its own client, which Close closes. The URL is one of
//
//	redis://[user:password@]host[:port][/database]
//	redis+cluster://[user:password@]host[:port][,host[:port]…]
//	redis+sentinel://[user:password@]host[:port][,host[:port]…]/master[/database]
//
// or the same with rediss for TLS. The hosts of a cluster are some of its servers, which
// name the others. Those of redis+sentinel are Sentinels; user and password are those of
// the servers that they watch. The query may have
//
//	replicas=n                             Options.Replicas, unless that is set
//	durable=1                              Options.Durable
//	token_retention=1h                     Options.TokenRetention, unless that is set
//	sentinel_username, sentinel_password   the credentials of the Sentinels themselves
//	skip_verify=true                       accept any TLS certificate
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

// checkClient refuses a client that cannot be used for locks.
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

// addressOf describes the client's server for messages, without passwords.
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

// confirms reports whether replicas or the disk must confirm a grant before it is reported.
func (s *Store) confirms() bool { return s.replicas > 0 || s.durable }

// Close implements [store.Store]. It closes the mailboxes and waits for operations in
// progress, which the client's timeouts bound. The client given to New stays open.
func (s *Store) Close() (err error) {
	s.end()
	if s.own {
		err = s.client.Close()
	}
	s.tasks.Wait()
	return err
}
