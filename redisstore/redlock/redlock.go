// Package redlock keeps locks on a majority of several independent Redis servers, with fencing tokens.
//
// Three or five servers are usual: locks work while fewer than half of them are down. It is "Redlock" with a
// queue and a token. A claim is sent to all nodes at once. One number is its order in every node's queue. Each ask
// also has a new number, which becomes the token if a majority accepts it. Only a newer ask of the same claim removes
// its grant on a node, so when several nodes grant to several claims, these converge by asking again. A notification
// only means "ask again" and never carries a grant.
//
// # Stored form
//
// Each node has a string key for each name: the prefix, then the name in braces ("holdfast-redlock:{invoice/42}").
// In a name the bytes "%", "{" and "}" are written as "%25", "%7B" and "%7D". The value begins with "hl" and the
// version of the format, "1". The newest token that the node accepted follows, then the entries in the order of the
// claims. Numbers are little-endian; times are microseconds of the node's clock. An entry is
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
//	owner, reason             the reason of a hold is why it was broken; of any other
//	                          entry, why it asks the holders to give up
//
// Changes by elections on a node (claims and holds with Announce, see package store) are published there as an
// empty message to the channel with the name of the key.
//
// A key lives until a day after its last entry has ended. One more key, the prefix and "node", has the state of the
// node itself: "hln1", the MaxTTL of its clients and the time from which it may grant, float64 each.
//
// # Guarantees
//
// Order, minimum hold, lock delay, readers and writers, blocks of tokens. A waiter is granted by its own next ask,
// not by the release before it. When a release or a refused try returns, it has freed as many nodes as the next
// claim needs, unless they take longer than Options.Timeout. A lease counts from before the first node was asked,
// less the possible drift of the nodes' clocks. A renewal counts if a majority confirms that one renewal.
//
// Upgrades are not supported. A semaphore of more than one slot needs more than a majority, because more than two
// majorities need not have a node in common: of N nodes, N·slots/(slots+1)+1, rounded down. It is not supported if
// that is all nodes while a lock needs fewer. So two slots need four nodes, three slots need five, and n slots need
// n+2. A single node or two nodes allow any number of slots, since a lock needs all of them too. If there are too few
// nodes, use one lock per slot.
//
// # Order
//
// Claims are served in the order in which they began, the same on every node. The time comes from the client's
// clock. Each answer of a node has the node's clock. If the median of the nodes' clocks is more than half a second
// from the client's own, the client uses the median, and corrects the claim whose answers show the difference. So
// claims of one client stay in order. Claims of two clients can be served in the other order only if they begin
// within a second (plus a round trip) of each other, as long as most nodes have clocks that agree. A claim can also
// be overtaken by one that had a majority before the first one had reached most nodes. A position that expired,
// because its owner was stopped for too long, starts again at the end. A try does not wait, so it has no position.
//
// # Tokens
//
// The tokens of a name strictly increase while the nodes keep their data, whatever the clocks: a later majority
// shares a node with an earlier one, and that node accepts only a number above its last. They can fail to increase
// only if every node that two majorities share has lost its data in between, and each of those nodes, when first
// asked after the loss, has a clock that is behind the earlier token. With three nodes, a single node can be enough.
// No node accepts a number that is 10 s ahead of its clock, and a node that has forgotten grants nothing for MaxTTL.
// So this takes a clock that is set back, or a MaxTTL of less than 10 s and a client whose clock is ahead.
//
// A node whose clock differs by more than some seconds from the others' grants nothing. If that node is needed, an
// ask returns an error (store.ErrUnavailable) that names the node and the difference.
//
// # Nodes that forget
//
// A restarted node may have lost its grants, with or without persistence, so it grants nothing for MaxTTL. Clients
// detect a restart by the loss of the scripts, which they load only once the node has been up for long enough, and
// never with EVAL. A node that was wiped (FLUSHALL) has lost its own record too, and grants nothing for MaxTTL from
// when that is found. So new nodes grant nothing for MaxTTL, unless Trust says that they have no holds. While too few
// nodes may grant, an ask returns an error that says how many seconds are left.
//
// All clients of the nodes must have the same MaxTTL, which bounds TTLs, minimum holds and lock delays. A client with
// a different one is refused.
//
// Two faults cannot be detected: a replica that replaces a node may lack votes, and a node whose clock is set ends
// its votes early or late. Do not put a node behind Sentinel, or behind a proxy that hides a restart.
//
// # Requirements
//
// Redis 7.0 or newer (in older ones a restart can bring the scripts back), or Valkey 7.2 or newer, with a
// maxmemory-policy of "noeviction" (the default). If the memory of a majority is full (maxmemory), nothing new is
// granted: the error is ErrUnavailable and says why. Holds are still renewed and released, and claims that wait
// already are granted. The clients' timeouts bound what Options.Timeout does not. Set MaxRetries to -1 and
// DialerRetries to 1, because the other nodes make up for a failure.
//
// # Rights
//
// These rights are enough (with the default prefix):
//
//	resetkeys ~holdfast-redlock:* resetchannels &holdfast-redlock:* -@all
//	+evalsha +get +mget +set +time +publish           to lock
//	+pexpire                                          to renew and release while a node's memory is full
//	+info +script|exists +script|load +setnx          to find out whether the node has forgotten
//	+subscribe +unsubscribe +ping                     for notifications; without, waiters and observers of elections poll
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

// The defaults of zero fields of [Options].
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
	// Prefix is the beginning of all keys and channels; DefaultPrefix if empty. Stores
	// with different prefixes do not share locks. It must not contain a brace.
	Prefix string

	// MaxTTL is the longest TTL, minimum hold and lock delay, from 200 ms to a year;
	// DefaultMaxTTL if zero. A node that may have forgotten its grants grants nothing for
	// this long. All clients of the nodes need the same value: a node stores it, and a
	// client with another one is refused.
	MaxTTL time.Duration

	// Timeout is how long one node may take for one operation before it counts as down, until
	// it answers again; from 1 ms to a minute, DefaultTimeout if zero. The nodes are asked at
	// the same time, and a majority is enough, so a slow node delays an operation only if too
	// few others answer.
	Timeout time.Duration

	// Dialer makes the connections of the clients that Open makes, for tunnels and for tests.
	// If the URL asks for TLS, the Store adds TLS on the connection that Dialer returns. New
	// refuses it with ErrInvalid, because its clients have their own dialers.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// Hooks see each command, to trace or count it. Hooks of the clients that you give to New
	// are not called: a Store uses their connections with its own timeouts, and go-redis does
	// not copy the hooks then.
	Hooks []redis.Hook
}

// A Store keeps locks on a majority of several Redis servers. Its methods are
// safe for concurrent use.
type Store struct {
	nodes    []*node
	own      []*redis.Client // opened by this package, which then closes them
	address  string          // for messages
	prefix   string
	maxTTL   time.Duration
	timeout  time.Duration
	minTTL   time.Duration // the constant, except in tests
	straggle time.Duration // the constant, except in tests
	scripts  *scripts
	clock    func() int64 // nil except in tests: the clock of all nodes and of the client
	trusts   bool         // tests only: nodes have forgotten nothing, however young they are

	claims    claims
	first     sync.Once
	pingEvery time.Duration // of mailboxes

	ctx   context.Context // of all exchanges and mailboxes, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu   sync.Mutex
	news chan struct{} // closed when a node has become usable or unusable
}

var _ interface {
	store.Store
	store.Watcher
	store.NameWatcher
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the clients, 1 to 31, each of its own Redis server, which must be
// independent of the others. Three or five are usual; one more than an odd number does not
// let more of them fail. The clients stay yours: the Store never closes them, and they must
// be open while you use the Store. New does no I/O. The error matches [store.ErrInvalid],
// or [store.ErrUnsupported] for a client behind Sentinel.
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
		c = c.WithTimeout(patience) // the same connections, own options
		// Conns of one client write without a common lock to the configuration of
		// maintenance notifications, which they share. No node here moves while it is
		// in use, so these are switched off.
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

// quorum returns how many nodes must grant a claim with the limit. Claims that conflict in
// pairs, as locks do, need a majority. With a majority each, three claims could hold two
// slots.
func (s *Store) quorum(limit int64) (int, error) {
	n, majority := len(s.nodes), len(s.nodes)/2+1 //mutant:redlock-majority
	if limit == store.Full {
		return majority, nil
	}
	q := int(int64(n)*limit/(limit+1)) + 1 //mutant:redlock-quorum-of-slots
	if q == n && q > majority {            //mutant:redlock-slots-need-all
		return 0, fmt.Errorf("%w: %d slots need %d nodes, %s", store.ErrUnsupported, limit, limit+2, s.needsMore())
	}
	return q, nil
}

// needsMore is the end of a message that says how many nodes a semaphore needs. With fewer, it
// would fail with the first node that is down. The command has only one line for the message.
func (s *Store) needsMore() string {
	n := len(s.nodes)
	text := fmt.Sprintf("and there are %d: use more nodes", n)
	if most := n - 2; most > 1 { // the largest limit whose quorum is not all nodes
		text += fmt.Sprintf(", at most %d slots", most)
	}
	return text + ", or a lock for each slot"
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
		d.Lacks[store.PromiseSlots] = "2 slots need 4 nodes, n slots n+2, " + s.needsMore()
	}
	return d
}

// Close implements [store.Store]. It closes the mailboxes and waits for operations in
// progress, which the timeouts bound. The clients given to New stay open.
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

// start starts the checks of the nodes at the first operation.
func (s *Store) start() {
	s.first.Do(func() {
		for _, n := range s.nodes {
			n.since = store.Now()
			s.tasks.Go(n.join)
		}
	})
}
