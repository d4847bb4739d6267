// Package zkstore keeps locks in ZooKeeper.
//
// # Stored form
//
// All nodes are below a path ("/holdfast" unless [Options] say otherwise):
//
//	/holdfast/n/NAME                                the record of a name: its newest token, and its entries in order
//	/holdfast/n/NAME/TRANSACTION-PLACE-KEY-NOTE     a note: a claim that waits to be taken into the record
//	/holdfast/k/NAME                                that there is a record: made with it, and deleted with it
//	/holdfast/s/SESSION                             a session; the version of the node counts the calls of its owner
//	/holdfast/r/SESSION                             the same session: its timeout, written at each renewal
//	/holdfast/r/RANDOM                              a process, and when it last asked for the server's clock
//	/holdfast/m/PROCESS/here                        a process that listens
//	/holdfast/m/PROCESS/lLETTER                     a notification for it
//	/holdfast/i/DATE/NAME                           a name that is to be looked at then, in milliseconds since 1970
//
// Of a name all bytes but letters, digits, "_", "-" and "~" are written as %XX. A record begins with the version of the
// form, a byte of 2, and a byte that is 1 if nobody uses the name; the rest, and a note, has the form of package
// [github.com/holdfast-go/holdfast/store/record]. Notes and letters are URL-safe base64. Sessions, their notes, and what says that a
// process is there are ephemeral, and each mailbox (a node below m) and each date is a container.
//
// A record is changed as package [github.com/holdfast-go/holdfast/store/queue] says, by a transaction that ZooKeeper does only if nobody has written the
// record since it was read, and if the notes that it takes in are still there. A record that nobody has used for ten
// minutes is deleted by a process that looks at its date, once a minute: that is ten minutes after it was made, and a day after it was
// found in use. Each deletion writes to the node
// i: what was read before is good for no write that comes later, as ZooKeeper counts the versions of a node that
// is made again from the beginning.
//
// # Deleting nodes by hand
//
// Do not: break a hold with the command (holdfast break) or [store.Inspector]. No single node that is deleted lets two hold a name.
// Without its record a name is refused (store.ErrCorrupt), as who held it may hold it still: once nobody uses the name,
// delete its node below k too. Without one of its two nodes a session is lost for its owner with the next renewal, and nobody gets
// what it held before the other node has gone.
//
// Delete the node of a name below n and that below k, or both nodes of a session, and two can hold a name: of the first for as
// long as its holder has it, of the second until the holder's next renewal. So it is if the whole path is deleted.
//
// # Guarantees
//
// Order, slots, upgrades, minimum hold, lock delay, blocks of tokens, hand-over to another process, and match by token,
// as the rule of package [github.com/holdfast-go/holdfast/store] says.
// Joining a queue conflicts with nobody. For each TTL that its claims have a process has a session of
// ZooKeeper's, and it renews each by one write for all that it keeps, every quarter of its timeout. Nothing else
// keeps such a session alive: no ping, no read, and no new connection.
//
// So a process has three connections, or two if its TTLs are at most ten seconds: one for what it reads and writes; one for the session of what
// it holds; and one for the session of what waits, which lasts for ten seconds at most, so that a waiter that crashed blocks nobody for longer. A session
// of ZooKeeper's has one timeout, one connection at a time, and goes on as long as anything is sent over that. If what is read and written
// shared the connection of a session, that would go on in a process that renews nothing any more.
//
// What a crashed process held comes free when ZooKeeper has ended its session: at the
// first tick of the server (every 2 s unless its operator says otherwise) after the timeout of the session since
// it was heard of last. That timeout is a second less than the TTL (less than that for TTLs below 4 s, and nothing
// for those up to 2 s), so that the name is free within the TTL and a second, unless ticks are longer than 2 s; for
// TTLs in the second above the least that the server grants, within the TTL and a tick. After a change of
// leader that is up to a TTL later, as the new one counts anew. Who waits watches the session of the entry ahead,
// and is granted at once then.
//
// For its owner a lease lasts for three quarters of that timeout
// from the sending of the last renewal that was answered. A member that was cut off from the
// others answers reads and pings for a while, so they prove nothing; and whom it has
// heard of it tells the leader half a tick later, or never if it dies before, which the last
// quarter is for, as no timeout is shorter than two ticks. A server whose minSessionTimeout is less than
// two of its ticks breaks that for TTLs below two ticks.
//
// A TTL that the server does not grant is an error that says so. It grants
// from 2 to 20 of its ticks: 4 s to 40 s unless its operator says otherwise.
//
// A token is the time at which it was drawn, in microseconds, by the clock of the server that leads, as far as the
// process has heard of it, or one more than the newest of the name. So the tokens of a name increase, also after all data was deleted or
// put back from a backup, unless the clock was set back as well; and when a member leads whose clock is more than ten
// minutes behind, on a name that nobody has used for as long. Minimum hold and lock delay run by that clock.
//
// A connection that breaks and comes back, to any member, within the TTL keeps
// everything, and loses no notification. No operation is sent twice unless ZooKeeper says that it was not applied. What is read is as new
// as the newest write that was answered by any member, but through one that led and has been cut off from the others, for
// as long as it has not noticed; nobody holds anything by such a reading, as a session counts from a write.
//
// A record has at most 550,000 bytes, which is some 5,000 entries. There is no sequence number that could come to its end.
//
// # Requirements
//
// ZooKeeper 3.5.1 or newer, for its containers; docs/stores.md says which it was tested on. jute.maxbuffer is at least what it is by default, 1 MB.
// A process has up to three connections, and one more for each further TTL: with many processes on one host, which its members
// see by one address, maxClientCnxns (60 by default) has to be raised.
//
// # Rights
//
// Who may read, write, create and delete below the path can do all of it. Nodes are made with Options.ACL: by default
// all that everybody may, or with Auth all that its user may, and nobody else. If the path is
// there already, nothing above it is read or written.
package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultPath is where the nodes are unless Options say otherwise.
const DefaultPath = "/holdfast"

// The range of TTLs. Which is the least and the greatest depends on the server.
const (
	minTTL = time.Second
	maxTTL = 20 * 24 * time.Hour // ZooKeeper counts milliseconds in 32 bits
)

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Path is the node below which all others are; DefaultPath if empty. It is made
	// if it is not there. Stores with different paths have nothing to do with each
	// other, as long as neither is below the other.
	Path string
	// Auth has the users as whom each session logs in. Default: none.
	Auth []Auth
	// ACL says who may do what with the nodes that are made. Default: everybody may do
	// all, or with Auth its users may, and nobody else.
	ACL []zk.ACL
	// Dial makes the connections, with TLS for example: a plain one unless set.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Auth is a user, in one of ZooKeeper's schemes: {"digest", "user:password"}.
type Auth struct {
	Scheme string // digest, for example
	Secret string // what the scheme wants to know
}

// A Store keeps locks in ZooKeeper: a [store.Store] that is also a Watcher, a
// NameWatcher, a Poller, an Inspector and a Checker. Its methods are safe for
// concurrent use.
type Store struct {
	record.WatchStore
	backend *backend
}

// New returns a Store on the members of one ensemble, each host:port. It does no I/O: the
// first operation connects. The driver's own connection cannot be shared, as each has a
// session of its own, whose timeout is the TTL. The error matches store.ErrInvalid.
func New(servers []string, o *Options) (*Store, error) {
	b, err := open(servers, o)
	if err != nil {
		return nil, err
	}
	return &Store{record.WatchStore{Store: record.New(b)}, b}, nil
}

func open(servers []string, given *Options) (*backend, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no ZooKeeper server is named", store.ErrInvalid)
	}
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, fmt.Errorf("%w: ZooKeeper server %q: want host:port", store.ErrInvalid, server)
		}
	}
	var o Options
	if given != nil {
		o = *given
	}
	path := cmp.Or(o.Path, DefaultPath)
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if path == "/" {
		path = ""
	}
	if o.ACL == nil {
		if o.ACL = zk.WorldACL(zk.PermAll); len(o.Auth) > 0 {
			o.ACL = zk.AuthACL(zk.PermAll) //mutant:zk-nodes-ours-alone
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return newBackend(servers, &o, path), nil
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

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:   b.address,
		Tokens:  "after all of ZooKeeper's data was deleted, or put back from a backup, and its clock was set back as well",
		Loses:   "all locks when all data is deleted, or put back from a backup",
		Forgets: []store.Accident{store.AccidentWipe},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseUntil: "what is told is when the session of the holder ends, which is up to a second before its TTL does",
		},
	}
}
