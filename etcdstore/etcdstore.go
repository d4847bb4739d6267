// Package etcdstore stores locks in etcd.
//
// # Stored form
//
// All keys are below a prefix ("holdfast/" unless [Options] say otherwise):
//
//	holdfast/base                     the version of the form, a colon, and a random number
//	holdfast/n/NAME                   the record of a name: its newest token, and its entries in order
//	holdfast/w/NAME/SESSION-NUMBER    a note: a claim that waits to be taken into the record
//	holdfast/s/SESSION                a session; the version of the key counts the calls of its owner
//	holdfast/m/PROCESS                the newest notifications for a process
//
// In a name the bytes "/" and "%" are written as "%2F" and "%25". Records and notes have the form
// of package [github.com/holdfast-go/holdfast/store/record]. A record is changed as package
// [github.com/holdfast-go/holdfast/store/queue] says, by a transaction that etcd applies only if
// the record has not been written since it was read, and if the notes that it takes in still exist.
//
// A session is an etcd lease. Its ID is that of the session, as 16 hexadecimal digits, but for the
// first bit. The session's key and its notes are attached to the lease. Unused records are deleted
// after a day, by a shared lease. Notifications are deleted with a session of the process that sent
// them, or after some minutes.
//
// # Guarantees
//
// Order, slots, upgrades, minimum hold, blocks of tokens, hand-over to another process, and match
// by token, as the contract in package [github.com/holdfast-go/holdfast/store] says. Joining a
// queue never conflicts with other writes. A process has one session for each TTL that its claims
// have, and a short one for its waiters. It renews each session once for all its claims, as long as
// the Store is open. A hold lasts as long as the session, counted from the sending of its last
// answered renewal, and at most for its own TTL since it was last renewed.
//
// TTLs are whole seconds, rounded up. The least is one and a half of the server's election timeout,
// 2 s unless its operator says otherwise. A TTL that the server does not grant is an error that
// says so. The holds of a crashed process are freed when etcd has noticed: up to half a second
// after the TTL, and after a change of leader up to a TTL and an election later. A waiter watches
// the session of the entry ahead, and is granted as soon as that ends.
//
// A token is the time at which it was drawn, in microseconds, by the clock of the process that drew
// it, or one more than the newest token of the name. So the tokens of a name increase, even after
// etcd's data was deleted or restored from a backup, unless the clock was set back as well.
//
// A hold that can be renewed in time survives compaction, a change of leader and the loss of a
// member. No request is sent twice unless etcd says that it was not applied. The renewal of a
// session is the exception: if a member has not answered within a second, it is also sent to the
// next one, so that a hung member costs no session. A process notices a deletion of all data with
// its next write.
//
// A record has at most 1 MiB, about 10,000 entries. etcd has no clock that its clients can read. So
// there is no lock delay, and a minimum hold is a session of its own, in whole seconds.
//
// # Requirements
//
// etcd 3.4 or newer; docs/stores.md lists the tested versions. Before 3.4.31 and 3.5.13, a leader
// whose disk hung could, after it was replaced, end leases that were renewed elsewhere: the owner
// learns of that with its next renewal.
//
// The client is yours, with its users, TLS and namespaces. Set its DialKeepAliveTime and
// DialKeepAliveTimeout (Open sets 10 s, the least that gRPC takes, and 3 s): without them a silent
// link is noticed late.
//
// # Rights
//
// A user needs to read and write the keys with the prefix:
//
//	etcdctl role grant-permission ROLE --prefix=true readwrite holdfast/
//
// Leases need no right of their own.
package etcdstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "holdfast/"

// The range of TTLs. The minimum depends on the server; no server grants less than a second.
const (
	minTTL = time.Second
	maxTTL = 365 * 24 * time.Hour
)

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix begins all keys; DefaultPrefix if empty. Stores with different prefixes are
	// independent, unless one prefix begins with the other.
	Prefix string
}

// A Store stores locks in etcd. It is a [store.Store], and also a Watcher, a NameWatcher, a Poller,
// an Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct{ record.WatchStore }

// New returns a Store on the client. The client stays yours: the Store never closes it, and it must
// be open as long as the Store is used. New does no I/O. The error matches store.ErrInvalid.
func New(client *clientv3.Client, o *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the etcd client is nil", store.ErrInvalid)
	}
	return newStore(client, o, false), nil
}

func newStore(client *clientv3.Client, o *Options, own bool) *Store {
	prefix := DefaultPrefix
	if o != nil && o.Prefix != "" {
		prefix = o.Prefix
	}
	b := newBackend(client, prefix, store.TokenRetention)
	b.own = own
	return &Store{record.WatchStore{Store: record.New(b)}}
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
// If there is a user, Open logs in. It waits for that for at most 5 s, and not at all if it cannot
// connect to any member. Without a user it does no I/O over the network. The error matches
// store.ErrInvalid, or for a user store.ErrDenied or store.ErrUnavailable; it does not show user or
// password.
func Open(url string) (*Store, error) {
	config, o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenConfig(config, o)
}

// OpenConfig is [Open] with the result of [ParseURL], for a program that changes it first. It does
// not change config. Its errors are those of [Open].
func OpenConfig(config *clientv3.Config, o *Options) (*Store, error) {
	c := *config
	c.DialOptions = append(slices.Clone(c.DialOptions), grpc.WithChainUnaryInterceptor(loginSoon))
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("log in on etcd at %s: %w", strings.Join(config.Endpoints, ", "), known(err))
	}
	return newStore(client, o, true), nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:   b.address,
		Tokens:  "after all data was deleted, or restored from a backup, and the clock of a process was set back as well",
		Loses:   "what was written since the backup that a restore takes, and with all data all locks",
		Forgets: []store.Accident{store.AccidentWipe},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseLockDelay: "etcd has no clock that its clients can read",
		},
	}
}

// Close implements [record.Backend].
func (b *backend) Close() error {
	b.end()
	b.tasks.Wait()
	if b.own {
		return b.client.Close()
	}
	return nil
}
