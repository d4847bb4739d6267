// Package redlock keeps locks on a majority of several independent Redis servers, with fencing tokens.
//
// Three or five servers are usual: locks work while fewer than half of them are down. It is "Redlock" with a
// queue and a token: a claim is asked for on all nodes at once, with one number that is its order in every
// node's queue and, with each ask, a fresh number that is its token if a majority accepts it. Only a claim's own
// newer ask removes a grant of it, so grants of several nodes to several claims converge as these ask again; a
// notification means only "ask again", and never carries a grant.
//
// # Stored form
//
// On each node a string key a name: the prefix, then the name between braces ("holdfast-redlock:{invoice/42}").
// In a name the bytes "%", "{" and "}" are written as "%25", "%7B" and "%7D". The value begins with "hl" and the
// version of the format, "1"; the newest token that the node accepted follows, then the entries in the claims'
// order. Numbers are little-endian; instants are microseconds of the node's clock. An entry is
//
//	since, expires, order, P  float64 each; P is the number of the newest ask
//	id                        32 hexadecimal digits
//	minimum hold              float64, microseconds
//	length of owner           uint16
//	length of reason          uint8
//	lock delay                float64, microseconds
//	limit, weight, used       uint32 each
//	n                         uint16, the size of the block of tokens
//	flags                     uint8: 1 granted here, 2 shown, 4 accepted
//	owner, reason             the reason of a hold is why it was broken, of any other
//	                          why it asks the holders to give up
//
// Changes by elections on a node (claims and holds with Announce, see package store) are published there as an
// empty message to a channel with the name of the key.
//
// A key lives until a day after the last of its entries has ended. One more key, the prefix and "node", has the
// state of the node itself: "hln1", the MaxTTL of its clients and the time from which it may grant, float64
// each.
//
// # Guarantees
//
// Order, minimum hold, lock delay, readers and writers, blocks of tokens. A waiter is granted by its own next
// ask, not by the release before it. When a release returns, it has freed as many nodes as the next holder
// needs, unless they take longer than Options.Timeout; so has a refused try. A lease counts from before the
// first node was asked, less the possible drift of the nodes' clocks. Its renewal counts if a majority confirms
// one and the same renewal.
//
// Upgrades are not supported. A semaphore of more than one slot needs more than a majority, as several
// majorities need not have one node in common: of N nodes N·slots/(slots+1)+1. It is supported if that is fewer
// than all nodes: from five nodes on, up to two slots fewer than nodes. With fewer nodes take a lock for each
// slot.
//
// # Order
//
// Claims are served in the order in which they began, the same on every node. A claim's beginning is by its
// client's clock. Each answer of a node has the node's clock, and if the median of the nodes' clocks is more
// than half a second from the client's own, the client uses the median. The claim whose answers show the
// difference is corrected with it. So claims of one client keep their order. Claims of two clients that begin
// within a second (plus a round trip) of each other can be served in the other order, and no others, as long as
// most nodes have clocks that agree. A claim can also be overtaken by one that had a majority before the first
// one had reached most nodes. A position that lapsed, as its owner was stopped for too long, begins again at the
// end. A try does not wait, so it has no position.
//
// # Tokens
//
// The tokens of a name strictly increase while the nodes keep their data, whatever the clocks: a later majority
// shares a node with an earlier one, and that node accepts only a number above its last. Beyond that they can
// fail to increase only if every node that two majorities have in common has lost its data between them, and on
// each of those the clock, when it is first asked after the loss, is behind the earlier token. With three nodes
// a single one can be enough. As no node accepts a number that is 10 s ahead of its clock, and one that has
// forgotten grants nothing for MaxTTL, that takes a clock that is set back, or a MaxTTL of less than 10 s and a
// client whose clock is ahead.
//
// A node whose clock differs by more than some seconds from the others' grants nothing. If it is needed, an ask
// is an error (store.ErrUnavailable) that names the node and the difference.
//
// # Nodes that forget
//
// A restarted node may have lost its grants, with or without persistence; so it grants nothing for MaxTTL.
// Clients detect a restart by the loss of the scripts, which they load only once the node has been up for long
// enough and never run by EVAL. A node that was wiped (FLUSHALL) has lost its own record too, and grants nothing
// for MaxTTL from then on. So new nodes grant nothing for MaxTTL, unless Trust says that they have no holds.
// While too few nodes may grant, an ask is an error that says how many seconds are left.
//
// MaxTTL is one number for all clients of the nodes: it bounds TTLs, minimum holds and lock delays. A client
// with a different one is refused.
//
// Two faults cannot be detected: a replica that replaces a node may lack votes, and a node whose clock is set
// ends its votes early or late. Do not put a node behind Sentinel, or behind a proxy that hides a restart.
//
// # Requirements
//
// Redis 7.0 or newer (before, a restart can bring the scripts back), Valkey 7.2 or newer. A maxmemory-policy of
// "noeviction" (the default). If the memory of a majority is full (maxmemory), nothing new is granted: the error
// is ErrUnavailable and says why. Holds are still renewed and released, and those that wait already are granted.
// The clients' timeouts bound what Options.Timeout does not: set MaxRetries to -1 and DialerRetries to 1, as the
// majority is the retry.
//
// # Rights
//
// These rights are enough, here with the default prefix:
//
//	resetkeys ~holdfast-redlock:* resetchannels &holdfast-redlock:* -@all
//	+evalsha +get +mget +set +time +publish           to lock
//	+pexpire                                          to renew and release while a node's memory is full
//	+info +script|exists +script|load +setnx          to find out whether the node has forgotten
//	+subscribe +unsubscribe +ping                     to be woken; without, waiters and observers of elections poll
//	+scan                                             to list all names
//
// The clients also need +select for a database other than 0.
package redlock

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// What a field of [Options] is if it is zero.
const (
	DefaultPrefix  = "holdfast-redlock:" // Options.Prefix
	DefaultMaxTTL  = time.Minute         // Options.MaxTTL
	DefaultTimeout = time.Second         // Options.Timeout
)

const (
	minTTL   = 200 * time.Millisecond
	mostTTL  = 365 * 24 * time.Hour
	maxNodes = 31
)

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix begins all keys and channels; DefaultPrefix if empty. Stores with
	// different prefixes have nothing to do with each other. It may not contain
	// a brace.
	Prefix string

	// MaxTTL is the longest TTL, minimum hold and lock delay, from 200 ms to a
	// year; DefaultMaxTTL if zero. A node that may have forgotten what it
	// granted grants nothing for this long. All clients of the nodes need the
	// same: a node keeps it, and one that has another is refused.
	MaxTTL time.Duration

	// Timeout is how long one node may take for one operation before it counts as down,
	// until it answers again; from 1 ms to a minute, DefaultTimeout if zero. The nodes are
	// asked at the same time, and a majority is enough, so a slow node is waited for only
	// if too few others answer.
	Timeout time.Duration

	// Dialer makes the connections of the clients that Open makes, for tunnels
	// and for tests. Where the URL asks for TLS that is spoken on what Dialer
	// returns. For New it is an ErrInvalid: its clients have their own.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// Hooks see each command, to trace or count it. Those of the clients that are
	// given to New are not called: a Store uses their connections with timeouts of its
	// own, and go-redis leaves the hooks behind then.
	Hooks []redis.Hook
}

// A Store keeps locks on a majority of several Redis servers. Its methods are
// safe for concurrent use.
type Store struct {
	nodes    []*node
	own      []*redis.Client // opened by us, so closed by us
	address  string          // for people
	prefix   string
	maxTTL   time.Duration
	timeout  time.Duration
	minTTL   time.Duration // the constant, but in tests
	straggle time.Duration // the constant, but in tests
	scripts  *scripts
	clock    func() int64 // nil except in tests: the clock of all nodes and of the client
	trusts   bool         // in tests only: nodes have forgotten nothing, however young they are

	claims    claims
	first     sync.Once
	pingEvery time.Duration // of mailboxes

	ctx   context.Context // of all exchanges and mailboxes, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu   sync.Mutex
	news chan struct{} // closed when a node has become usable, or is found not to be
}

var _ interface {
	store.Store
	store.Watcher
	store.NameWatcher
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the clients, 1 to 31, each of a Redis server of its own that
// knows nothing of the others. Three or five are usual; one more than an odd number lets
// no more of them fail. The clients stay the caller's: they are never closed here and
// must be open for as long as the Store is used. New does no I/O. The error matches
// [store.ErrInvalid], or [store.ErrUnsupported] for a client behind Sentinel.
func New(clients []*redis.Client, o *Options) (*Store, error) {
	return newStore(clients, o, nil)
}

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "redlock")
}

func newStore(clients []*redis.Client, o *Options, clock func() int64) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{
		prefix: DefaultPrefix, maxTTL: DefaultMaxTTL, timeout: DefaultTimeout, minTTL: minTTL, straggle: straggle, scripts: live(), clock: clock,
		pingEvery: pingEvery, news: make(chan struct{}), claims: claims{of: map[store.ID]*claim{}},
	}
	if o.Prefix != "" {
		s.prefix = o.Prefix
	}
	if o.MaxTTL != 0 {
		s.maxTTL = o.MaxTTL
	}
	if o.Timeout != 0 {
		s.timeout = o.Timeout
	}
	switch {
	case o.Dialer != nil:
		return nil, fmt.Errorf("%w: Options.Dialer of a Redlock store is for Open: the clients that New is given have their own", store.ErrInvalid)
	case len(clients) == 0 || len(clients) > maxNodes:
		return nil, fmt.Errorf("%w: %d Redis clients: want 1 to %d, and better 3 or 5", store.ErrInvalid, len(clients), maxNodes)
	case strings.ContainsAny(s.prefix, "{}"):
		return nil, fmt.Errorf("%w: prefix %q of a Redlock store: it may not contain a brace", store.ErrInvalid, s.prefix)
	case s.maxTTL < minTTL || s.maxTTL > mostTTL:
		return nil, fmt.Errorf("%w: a MaxTTL of %v: from %v to %v are allowed", store.ErrInvalid, s.maxTTL, minTTL, mostTTL)
	case s.timeout < time.Millisecond || s.timeout > time.Minute:
		return nil, fmt.Errorf("%w: a timeout of %v: from %v to %v are allowed", store.ErrInvalid, s.timeout, time.Millisecond, time.Minute)
	}
	if clock != nil {
		s.scripts = clocked()
	}
	var addresses []string
	for i, c := range clients {
		if c == nil {
			return nil, fmt.Errorf("%w: Redis client %d is nil", store.ErrInvalid, i+1)
		}
		co := c.Options()
		if co.Addr == "FailoverClient" { // go-redis's name for it
			return nil, fmt.Errorf("%w: Redis client %d is behind Sentinel, which can put a server in a node's place that has not its votes: give each node's own address", store.ErrUnsupported, i+1)
		}
		if slices.Contains(addresses, co.Addr) {
			return nil, fmt.Errorf("%w: two of the Redis clients have the address %s: each node needs a server of its own", store.ErrInvalid, co.Addr)
		}
		addresses = append(addresses, co.Addr)
		patience := max(co.ReadTimeout, co.WriteTimeout)
		if patience <= 0 || patience > s.timeout {
			patience = s.timeout
		}
		c = c.WithTimeout(patience) // the same connections, options of its own
		// A client's Conn writes to the configuration of the maintenance
		// notifications, which all Conns of that client share, without a
		// common lock. No node here moves while it is in use, so nothing is
		// asked of it.
		c.Options().MaintNotificationsConfig = nil
		for _, hook := range o.Hooks {
			c.AddHook(hook) //mutant:redlock-hooks
		}
		n := &node{s: s, i: i, client: c, address: co.Addr}
		n.names = sync.OnceValue(n.newNames)
		s.nodes = append(s.nodes, n)
	}
	s.address = "Redlock on " + strings.Join(addresses, ", ")
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// quorum is how many nodes have to grant a claim of the limit. What conflicts
// in pairs, and locks do, needs a majority. With a majority each, three could
// have two slots.
func (s *Store) quorum(limit int64) (int, error) {
	n, majority := len(s.nodes), len(s.nodes)/2+1 //mutant:redlock-majority
	if limit == store.Full {
		return majority, nil
	}
	q := int(int64(n)*limit/(limit+1)) + 1 //mutant:redlock-quorum-of-slots
	if q == n && q > majority {
		return 0, fmt.Errorf("%w: %s", store.ErrUnsupported, s.noSlots(limit))
	}
	return q, nil
}

func (s *Store) noSlots(limit int64) string {
	n := len(s.nodes)
	wide := n - 2 // the widest limit whose quorum leaves a node out
	text := fmt.Sprintf("a semaphore of %d on %d nodes needs the grant of every one of them, for majorities of more than two can be disjoint in pairs, so it would end with the first node that is away", limit, n)
	if wide >= 2 {
		return text + fmt.Sprintf(": at most %d slots, more nodes, or a lock for each slot", wide)
	}
	return text + ": take five nodes or more, or a lock for each slot"
}

const ownNumber = "a claim's token is the number that its owner asks with, so a waiter that another's release grants has to ask once more"

const noUpgrade = "a fresh number un-grants what a claim holds, and how an upgrade is to go with that has not been modelled"

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	d := store.Description{
		Store:  s.address,
		MinTTL: s.minTTL, MaxTTL: s.maxTTL, Tick: time.Microsecond,
		Tokens: "when every node that two majorities share has lost its data and its clock is behind the newest token",
		Loses: "nothing as long as fewer than a majority of the nodes are away; a node that was restarted or wiped grants nothing for the longest TTL. " +
			"A node's clock that is set forward ends its votes early, and one behind a fail-over can lose them: then two may hold a name until the first one's TTL has passed",
		Forgets: []store.Accident{store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseUpgrade:           noUpgrade,
			store.PromiseDrawn:             ownNumber,
			store.PromiseReason:            "it does not keep the reason of a break that frees the name at once",
			store.PromiseNotificationToken: ownNumber,
		},
	}
	if _, err := s.quorum(2); err != nil {
		d.Lacks[store.PromiseSlots] = s.noSlots(2)
	}
	return d
}

// Close implements [store.Store]: it ends the mailboxes and waits for
// operations under way, which the timeouts bound. The clients of New stay
// open.
func (s *Store) Close() (err error) {
	s.end()
	for _, c := range s.own {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}
	s.tasks.Wait()
	return err
}

// start has the nodes looked at, at the first operation.
func (s *Store) start() {
	s.first.Do(func() {
		for _, n := range s.nodes {
			n.since = store.Now()
			s.tasks.Go(n.join)
		}
	})
}
