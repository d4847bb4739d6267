// Package zkstore keeps locks in ZooKeeper.
//
// # Stored form
//
// A node an entry, below a path ("/holdfast" unless Options say otherwise):
//
//	/holdfast/n/NAME/v1-ID-LIMIT-WEIGHT-SEQUENCE    an entry: ID is 32 hexadecimal digits, LIMIT and WEIGHT are 8
//	/holdfast/n/NAME/v1-ID-freeze                   its upgrade was asked for: nobody is granted from now on
//	/holdfast/n/NAME/v1-ID-upto-SEQUENCE            its upgrade waits until those that were granted up to here have gone
//	/holdfast/s/RANDOM                              a session, written to each time that it is renewed
//
// v1 is the version of the form. Of a name all bytes but letters, digits, "_", "-" and
// "~" are written as %XX. The order of the entries of a name is that of their
// sequence numbers. Who is granted is not stored: it follows
// from the nodes, and whoever looks comes to the same. The data of an entry
// is one JSON object with what is for people, and with what an operator has
// written into it.
//
// All of these are ephemeral. The node of a name is a container, which ZooKeeper
// deletes when it has been empty for a minute.
//
// # Guarantees
//
// Order, slots, upgrades, and blocks of at most 64 tokens, as the rule says. A process has
// one session of ZooKeeper's for each TTL that its claims have, over a connection of
// its own, and renews it by one write for all of them, every third of the TTL, as
// long as it is open.
//
// What a crashed process held comes free when ZooKeeper has ended its session: at the
// first tick of the server (every 2 s unless its operator says otherwise) after the timeout of the session since
// it was heard of last. That timeout is a second less than the TTL (less than that for TTLs below 4 s, and nothing
// for those up to 2 s), so that the name is free within the TTL and a second, unless ticks are longer than 2 s; for
// TTLs in the second above the least that the server grants, within the TTL and a tick. After a change of
// leader that is up to a TTL later, as the new one counts anew.
//
// The owner is told three quarters of that timeout: a lease lasts for so long
// from the sending of the last write that was answered. A member that was cut off from the
// others answers reads and pings for a while, so they prove nothing; and whom it has
// heard of it tells the leader half a tick later, or never if it dies before, which the last
// quarter is for, as no timeout is shorter than two ticks. A server whose minSessionTimeout is less than
// two of its ticks breaks that for TTLs below two ticks. A claim
// that is not renewed for its TTL is deleted by its own process, if that lives.
//
// A TTL that the server does not grant is an error that says so. It grants
// from 2 to 20 of its ticks: 4 s to 40 s unless its operator says otherwise.
//
// A token is 64 times the id of the transaction that was the last to add or
// remove a node of the name, at the look that showed the grant, plus a count. Tokens of
// a name strictly increase, over changes of leader and when the node of the name was
// deleted and made again. They start again when all of ZooKeeper's data was deleted or put
// back from a backup. List shows a smaller token for a hold that waited for its
// grant, and for a reader or a slot, for its first second.
//
// A connection that breaks and comes back, to any member, within the TTL keeps
// everything. No operation is sent twice unless ZooKeeper says that it was not applied, but for
// the release: what was given back, or given up, and was not answered is deleted as soon as a
// member answers.
//
// ZooKeeper numbers the claims of a name, and at 2147483647 it repeats numbers. A claim
// whose number is 2,000,000,000 or more is refused with store.ErrUnsupported as long as
// anybody holds the name or waits for it; the first after that starts the numbers
// again, as ZooKeeper itself does when nobody has used the name for a minute.
//
// There is no minimum hold and no lock delay, as nothing of ours outlives a
// session, and for the same reason no hold goes over to another process. A place in the queue
// is kept until the session ends, if its process dies. A hold is matched by its id,
// as ids are random and never used again, and by its token as far as that is stored.
//
// # Requirements
//
// ZooKeeper 3.5.1 or newer, for its containers.
//
// # Rights
//
// Who may read, create and delete below the path, and write its own nodes and those of the
// names, can do all of it. Nodes are made with Options.ACL: by default
// all that everybody may, or with Auth all that its user may, and nobody else. If the path is
// there already, nothing above it is read or written.
package zkstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultPath is where the nodes are unless Options say otherwise.
const DefaultPath = "/holdfast"

// The range of TTLs. Which is the least and the greatest depends on the server.
const (
	minTTL = time.Second
	maxTTL = 20 * 24 * time.Hour // ZooKeeper counts milliseconds in 32 bits
)

// maxBlock is how many tokens a transaction gives.
const maxBlock = 64

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Path is the node below which all others are; DefaultPath if empty. It is made
	// if it is not there. Stores with different paths have nothing to do with each
	// other, as long as neither is below the other.
	Path string
	// Auth is whom each session is for: none unless set.
	Auth []Auth
	// ACL is what others may do with the nodes that are made: all, unless set; with
	// Auth nothing, unless set.
	ACL []zk.ACL
	// Dial makes the connections, with TLS for example: a plain one unless set.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Auth is a user, in one of ZooKeeper's schemes: {"digest", "user:password"}.
type Auth struct{ Scheme, Secret string }

// A Store keeps locks in ZooKeeper. Its methods are safe for concurrent use.
type Store struct {
	servers []string
	o       Options
	address string // for people
	path    string

	ctx   context.Context // of all that outlives a call, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	dialed atomic.Pointer[error] // how the newest connection came out

	mu       sync.Mutex
	sessions map[time.Duration]*session // the present one for each TTL
	retired  map[*session]bool          // those that end when what they keep has ended
	mine     map[store.ID]*mine         // the claims of this process
	paths    map[string]*mine           // those of them that have a node
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

// New returns a Store on the members of one ensemble, each host:port. It does no I/O: the
// first operation connects. The driver's own connection cannot be shared, as each has a
// session of its own, whose timeout is the TTL. The error matches store.ErrInvalid.
func New(servers []string, o *Options) (*Store, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no ZooKeeper server is named", store.ErrInvalid)
	}
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, fmt.Errorf("%w: ZooKeeper server %q: want host:port", store.ErrInvalid, server)
		}
	}
	s := &Store{
		servers: servers, address: "ZooKeeper at " + strings.Join(servers, ", "), path: DefaultPath,
		sessions: map[time.Duration]*session{}, retired: map[*session]bool{},
		mine: map[store.ID]*mine{}, paths: map[string]*mine{}, wake: make(chan struct{}, 1),
	}
	if o != nil {
		s.o = *o
	}
	if s.o.Path != "" {
		s.path = s.o.Path
	}
	if err := checkPath(s.path); err != nil {
		return nil, err
	}
	if s.path == "/" {
		s.path = ""
	}
	if s.o.ACL == nil {
		if s.o.ACL = zk.WorldACL(zk.PermAll); len(s.o.Auth) > 0 {
			s.o.ACL = zk.AuthACL(zk.PermAll) //mutant:zk-nodes-ours-alone
		}
	}
	if s.o.Dial == nil {
		s.o.Dial = (&net.Dialer{}).DialContext
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

func init() {
	scheme.Register(Open, "zk")
}

// Open returns a Store that a URL names:
// zk://[user:password@]host:port[,host:port…][/path][?option=value…], with the
// members of one ensemble; a lone host may leave out its port, 2181. The path is
// Options.Path, and a user is one of the scheme digest. The options are
//
//	tls=1                          TLS, with the system's certificate authorities
//	ca=FILE, cert=FILE, key=FILE   TLS, with this authority; with this certificate and its key
//	server-name=NAME               the name to look for in the server's certificate
//
// Open does no I/O over the network. The error matches store.ErrInvalid, and does
// not show user or password.
func Open(url string) (*Store, error) {
	servers, o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(servers, o)
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	const session = "nothing that is kept for a process outlives its session of ZooKeeper's"
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Millisecond, MaxBlock: maxBlock,
		Tokens:  "after all of ZooKeeper's data was deleted, or put back from a backup",
		Loses:   "all locks when all data is deleted, or put back from a backup",
		Forgets: []store.Accident{store.AccidentWipe},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseMinHold:   session,
			store.PromiseLockDelay: session,
			store.PromiseDetach:    session,
			store.PromisePlaceTime: "a place is kept until the session of its process ends, which is after at most the TTL",
			store.PromiseMatch:     "a hold is matched by its id, which is random and never used again; by its token too as far as that is stored",
			store.PromiseUntil:     "who waits is told when the obstacle has gone",
			store.PromiseExpiry:    "the claims of one process and TTL have one session, which is renewed for all of them",
			store.PromiseHintToken: "the token is the transaction of the look that shows the grant",
		},
	}
}

// Close implements [store.Store]: it ends the sessions, and with them all that
// they keep.
func (s *Store) Close() error {
	s.end()
	s.mu.Lock()
	all := s.open()
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, sess := range all {
		// What cannot be ended now ends with its TTL.
		closing.Go(sess.close)
	}
	closing.Wait()
	s.tasks.Wait()
	return nil
}
