// Package zkstore stores locks in ZooKeeper.
//
// # Stored form
//
// All nodes are below a path ("/holdfast" unless [Options] say otherwise):
//
//	/holdfast/n/NAME                                the record of a name: its newest token, and its entries in order
//	/holdfast/n/NAME/TRANSACTION-POSITION-KEY-NOTE  a note: a claim that waits to be taken into the record
//	/holdfast/k/NAME                                that there is a record: made with it, and deleted with it
//	/holdfast/s/SESSION                             a session; the version of the node counts the calls of its owner
//	/holdfast/r/SESSION                             the same session: its timeout, written at each renewal
//	/holdfast/r/RANDOM                              a process, and when it last asked for the server's clock
//	/holdfast/m/PROCESS/here                        a process that listens
//	/holdfast/m/PROCESS/lLETTER                     a notification for it
//	/holdfast/i/DATE/NAME                           a name to be checked then, in milliseconds since 1970
//
// In a name all bytes but letters, digits, "_", "-" and "~" are written as %XX. A record begins
// with the version of the format, a byte of 2, and a byte that is 1 if the name is unused. The rest
// of it, and a note, have the format of package [github.com/holdfast-go/holdfast/store/record].
// Notes and letters are URL-safe base64. Sessions, their notes, and the nodes "here" of processes
// are ephemeral. Each mailbox (a node below m) and each date is a container.
//
// A record is changed as package [github.com/holdfast-go/holdfast/store/queue] says, by a
// transaction that ZooKeeper applies only if the record has not been written since it was read, and
// if the notes that it takes in still exist. A process that checks due dates, once a minute,
// deletes records that were unused for ten minutes. A record is due ten minutes after it was
// created, and a day after it was found in use. Each deletion writes to the node i. That
// invalidates records read before, because ZooKeeper counts the versions of a recreated node from
// the beginning.
//
// # Deleting nodes by hand
//
// Do not delete nodes by hand: break a hold with the command (holdfast break) or [store.Inspector].
// Deleting a single node never lets two hold a name. A name without its record is refused
// (store.ErrCorrupt), because its holder may still hold it: once the name is unused, delete its
// node below k too. A session without one of its two nodes is lost for its owner with the next
// renewal, and its names are not granted before the other node has gone.
//
// If you delete the node of a name below n and that below k, or both nodes of a session, two can
// hold a name: in the first case for as long as its holder has it, in the second until the holder's
// next renewal. The same is true if you delete the whole path.
//
// # Guarantees
//
// Order, slots, upgrades, minimum hold, lock delay, blocks of tokens, hand-over to another process,
// and match by token, as the contract in package [github.com/holdfast-go/holdfast/store] says.
// Joining a queue never conflicts with other writes. For each TTL of its claims a process has a
// ZooKeeper session. It renews each session by one write for all that it keeps, every quarter of
// its timeout. Nothing else keeps such a session alive: no ping, no read, and no new connection.
//
// So a process has three connections, or two if its TTLs are at most ten seconds: one for reads and
// writes; one for the session of its holds; and one for the session of its waiters. The last lasts
// ten seconds at most, so that a crashed waiter does not block others for longer. A ZooKeeper
// session has one timeout and one connection at a time, and lasts as long as anything is sent over
// that. If reads and writes used the connection of a session, the session would last in a process
// that no longer renews.
//
// The holds of a crashed process are freed when ZooKeeper has ended its session: at the first tick
// of the server (every 2 s unless its operator says otherwise) after the timeout of the session
// since its last message. That timeout is a second less than the TTL (less than that for TTLs below
// 4 s, and nothing for those up to 2 s), so that the name is free within the TTL and a second,
// unless ticks are longer than 2 s; for TTLs in the second above the least that the server grants,
// within the TTL and a tick. After a change of leader this is up to a TTL later, because the new
// leader restarts the timeouts. A waiter watches the session of the entry ahead, and is granted as
// soon as that ends.
//
// For its owner a lease lasts for three quarters of that timeout from the sending of the last
// answered renewal. A member that was cut off from the others answers reads and pings for a while,
// so they prove nothing. It reports the sessions that it has heard of to the leader half a tick
// later, or never if it dies before. The last quarter of the timeout covers that, because no
// timeout is shorter than two ticks. A server whose minSessionTimeout is less than two of its ticks
// breaks that for TTLs below two ticks.
//
// A TTL that the server does not grant is an error that says so. It grants
// from 2 to 20 of its ticks: 4 s to 40 s unless its operator says otherwise.
//
// A token is the time at which it was drawn, in microseconds, by the clock of the leader, as last
// read by the process, or one more than the newest token of the name. So the tokens of a name
// increase, even after all data was deleted or restored from a backup. They can decrease if the
// clock was set back as well, or if the new leader's clock is more than ten minutes behind, on a
// name unused for as long. Minimum hold and lock delay use that clock.
//
// A connection that breaks and comes back within the TTL, to any member, keeps everything, and
// loses no notification. No operation is sent twice unless ZooKeeper says that it was not applied.
// A read is as new as the newest answered write of any member, except through a former leader that
// was cut off from the others, until it notices. No hold depends on such a read, because a session
// counts from a write.
//
// A record has at most 550,000 bytes, about 5,000 entries. There is no sequence number that could
// be exhausted.
//
// # Requirements
//
// ZooKeeper 3.5.1 or newer, for its containers; docs/stores.md lists the tested versions.
// jute.maxbuffer must be at least its default, 1 MB. A process has up to three connections, and one
// more for each further TTL. If many
// processes run on one host, which the members see as one address, raise maxClientCnxns (60 by
// default).
//
// # Rights
//
// A user needs the rights to read, write, create and delete below the path. Nodes are created with
// Options.ACL: by default everyone has all rights, or with Auth only its users. If the path exists
// already, nothing above it is read or written.
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

// DefaultPath is the default of Options.Path.
const DefaultPath = "/holdfast"

// The range of TTLs. The actual limits depend on the server.
const (
	minTTL = time.Second
	maxTTL = 20 * 24 * time.Hour // ZooKeeper counts milliseconds in 32 bits
)

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Path is the node below which all others are; DefaultPath if empty. It is created if it is
	// missing. Stores with different paths are independent, unless one path is below the other.
	Path string
	// Auth lists the users that each session logs in as. Default: no user.
	Auth []Auth
	// ACL is the access list of created nodes. Default: everyone has all rights, or
	// with Auth only its users.
	ACL []zk.ACL
	// Dial makes the connections, for example with TLS. Default: plain connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Auth is a user, in one of ZooKeeper's schemes: {"digest", "user:password"}.
type Auth struct {
	Scheme string // digest, for example
	Secret string // what the scheme requires
}

// A Store stores locks in ZooKeeper. It is a [store.Store], and also a Watcher, a NameWatcher, a
// Poller, an Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	record.WatchStore
	backend *backend
}

// New returns a Store on the members of one ensemble, each host:port. It does no I/O: the first
// operation connects. You cannot pass a connection of the driver, because each has a session of its
// own, whose timeout is the TTL. The error matches store.ErrInvalid.
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

// Open returns a Store for a URL:
// zk://[user:password@]host:port[,host:port…][/path][?option=value…], with the members of one
// ensemble; a lone host may leave out its port, 2181. The path is Options.Path, and a user has the
// scheme digest. The options are
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
