// Package etcdstore keeps locks in etcd.
//
// # Stored form
//
// A key an entry, below a prefix ("holdfast/" unless Options say otherwise):
//
//	holdfast/n/NAME/LIMIT/WEIGHT/ID      an entry: LIMIT and WEIGHT are 8 hexadecimal digits, ID is 32: of the
//	                                     claim, or of one before it that had the key
//	holdfast/n/NAME/LIMIT/WEIGHT/ID+     its minimum hold, once the owner has shown the token
//	holdfast/base                        the version of the form, a colon, and the floor of all tokens
//
// In a name the bytes "/" and "%" are written as "%2F" and "%25". The order of
// the entries of a name is the order in which their keys were created. Who is
// granted is not stored: it follows from the entries, and whoever looks comes to
// the same. A value is one JSON object; it begins with the version of the form,
// "v", and has the owner, the TTL in seconds, and what else somebody must know
// who did not write it.
//
// The key of an entry is attached to a lease of etcd's: that of its process and
// TTL, which is the session; that of a hold which was broken or detached is one
// of its own, and so is that of a minimum hold. Nothing is left when the lease
// is over.
//
// # Guarantees
//
// Order, slots, upgrades, minimum hold, blocks of at most 64 tokens, and hand-over
// to another process, as the rule says. A process has one session for each TTL that
// its claims have, and renews it once for all of them every third of the TTL, as
// long as it is open. What a claim holds lasts as long as the session, counted
// from the sending of its last answered renewal, and at most for its own TTL
// since it was last renewed: what is not renewed any more is deleted by its own
// process, if that lives; so is what was given back, or given up, and etcd did not
// answer. A claim begins with a session that was renewed within the last tenth of
// the TTL. An ask that was not answered is repeated in the same session; one that
// arrives after its claim was given up is deleted within a quarter of the TTL.
//
// TTLs are whole seconds, rounded up; the least is one and a half of the server's
// election timeout, 2 s unless its operator says otherwise. A TTL that the server does
// not grant is an error that says so. What a crashed process held comes free when
// etcd has noticed: up to half a second after the TTL, and after a change of
// leader up to a TTL and an election later.
//
// A token is the floor, plus 64 times the revision of the store at the look that
// showed the grant, plus a count. Tokens of a name strictly increase, even when all of
// etcd's data was deleted: the floor is such that the first is the time, in
// microseconds, and etcd does not get to 15,000 revisions a second. They repeat
// after a restore from a backup, unless it was restored with
// --bump-revision, or the key of the floor was deleted after it. List shows a
// smaller token for a hold that waited for its grant, for its first second.
//
// Compaction, a change of leader and the loss of a member are survived by each hold
// that can be renewed in time. No operation is sent twice unless etcd says that
// it was not applied.
//
// It keeps no lock delay; a place in the queue is kept until the session ends,
// if its process dies; a hold is matched by its id, as ids are random and never used again, and
// by its token as far as that is stored.
//
// # Requirements
//
// etcd 3.4 or newer; it was tested on 3.4.23, and its short tests pass on 3.7.3, which
// scripts/etcd-newest builds. Before 3.4.31 and 3.5.13 a leader whose disk hung could,
// after it was replaced, end leases that were renewed elsewhere: the owner is told
// with its next renewal.
//
// The client is the caller's, with its users, TLS and namespaces. It should have
// DialKeepAliveTime and DialKeepAliveTimeout set (Open sets 10 s, the least that gRPC
// takes, and 3 s): without them a link that went silent is noticed late.
//
// # Rights
//
// A user who may read and write the keys below the prefix can do all of it:
//
//	etcdctl role grant-permission ROLE --prefix=true readwrite holdfast/
//
// Leases need no right of their own.
package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultPrefix begins the keys unless Options say otherwise.
const DefaultPrefix = "holdfast/"

// The range of TTLs and minimum holds. Which TTL is the least depends on the
// server; none grants less than a second.
const (
	minTTL = time.Second
	maxTTL = 365 * 24 * time.Hour
)

// maxBlock is how many tokens a revision gives.
const maxBlock = 64

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix begins all keys; DefaultPrefix if empty. Stores with different
	// prefixes have nothing to do with each other, as long as neither is the
	// beginning of the other.
	Prefix string
}

// A Store keeps locks in etcd. Its methods are safe for concurrent use.
type Store struct {
	client  *clientv3.Client
	own     bool   // opened by us, so closed by us
	address string // for people
	prefix  string
	longest time.Duration // bounds one operation: longestCall, but for tests

	ctx   context.Context // of all that outlives a call, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu       sync.Mutex
	floor    *floor
	sessions map[time.Duration]*session // the present one for each TTL
	retired  map[*session]bool          // those that end when what they keep has ended
	mine     map[store.ID]*mine         // the claims of this process
	spares   spares
	tending  bool
	wake     chan struct{} // to tend at once
	sink     func(store.Hint)
}

var _ interface {
	store.Store
	store.Watcher
	store.Looker
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the client, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. New does no
// I/O. The error matches store.ErrInvalid.
func New(client *clientv3.Client, o *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the etcd client is nil", store.ErrInvalid)
	}
	s := &Store{
		client: client, prefix: DefaultPrefix, longest: longestCall, address: "etcd at " + strings.Join(client.Endpoints(), ", "),
		sessions: map[time.Duration]*session{}, retired: map[*session]bool{}, mine: map[store.ID]*mine{}, spares: spares{of: map[string][]string{}},
		wake: make(chan struct{}, 1),
	}
	if o != nil && o.Prefix != "" {
		s.prefix = o.Prefix
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

func init() {
	scheme.Register(Open, "etcd")
}

// Open returns a Store on a client of its own, which Close closes. The URL is
// etcd://[user:password@]host:port[,host:port…][?option=value…], with the members
// of one cluster; a lone host may leave out its port, 2379. The options are
//
//	prefix=KEYS                    Options.Prefix
//	tls=1                          TLS, with the system's certificate authorities
//	ca=FILE, cert=FILE, key=FILE   TLS, with this authority; with this certificate and its key
//	server-name=NAME               the name to look for in the server's certificate
//
// Where there is a user, Open logs in, and waits for that for 5 s at most, but not
// where no member can be connected to; else it does no I/O over the network. The error matches store.ErrInvalid, or for a user
// store.ErrDenied or store.ErrUnavailable; it does not show user or password.
func Open(url string) (*Store, error) {
	config, o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenConfig(config, o)
}

// OpenConfig is Open with what ParseURL has made of the URL.
func OpenConfig(config *clientv3.Config, o *Options) (*Store, error) {
	c := *config
	c.DialOptions = append(slices.Clone(c.DialOptions), grpc.WithChainUnaryInterceptor(loginSoon))
	client, err := clientv3.New(c)
	if err != nil {
		s := Store{address: "etcd at " + strings.Join(config.Endpoints, ", ")}
		return nil, s.failed("log in", err)
	}
	s, err := New(client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Second, MaxBlock: maxBlock,
		Tokens: "after a restore from a backup without --bump-revision, unless the key " + s.baseKey() + " is deleted after it; " +
			"a wipe does no harm",
		Loses:   "what was written since the backup that a restore takes, and with all data all locks",
		Forgets: []store.Accident{store.AccidentWipe},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseLockDelay: "etcd deletes what a session kept as soon as the session is over",
			store.PromisePlaceTime: "a place is kept until the session of its process ends, which is after at most the TTL",
			store.PromiseMatch:     "a hold is matched by its id, which is random and never used again; by its token too as far as that is stored",
			store.PromiseUntil:     "who waits is told when the obstacle has gone",
			store.PromiseExpiry:    "the claims of one process and TTL have one session, which is renewed for all of them",
			store.PromiseHintToken: "the token is the revision of the look that shows the grant",
		},
	}
}

// closePatience bounds how long Close waits for etcd to end the sessions.
const closePatience = 2 * time.Second

// Close implements [store.Store]: it ends the sessions, and with them all that
// they keep. The client of New stays open.
func (s *Store) Close() (err error) {
	s.end()
	s.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var revoking sync.WaitGroup
	s.mu.Lock()
	all := s.open()
	s.mu.Unlock()
	for _, sess := range all {
		// What cannot be ended now ends with its TTL.
		revoking.Go(func() { _, _ = s.client.Revoke(ctx, sess.lease) })
	}
	revoking.Wait()
	if s.own {
		err = s.client.Close()
	}
	return err
}
