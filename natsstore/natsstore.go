// Package natsstore stores locks in a key-value bucket of NATS JetStream. It is a backend of
// package [github.com/holdfast-go/holdfast/store/record].
//
// # Stored form
//
// The keys of one bucket ("holdfast" unless [Options] say otherwise):
//
//	n.NAME          a name: its record, as package store/record writes it
//	j.NAME.KEY      notes of waiters that are not in the record yet
//	s.SESSION       a session, which has a TTL: NATS deletes it when that has passed
//	c.SESSION       how often a session was called
//
// In a name all bytes but ASCII letters, digits, "-" and "_" are written as "=" and two hexadecimal
// digits. A record is changed by a write that NATS applies only if the key has not been written
// since it was read. A waiter whose write was refused leaves a note, a message of its own that no
// other write can block. The header Holdfast-Taken of a record says up to which message the notes
// are taken in. They are deleted soon after that, and after an hour at the latest. An idle name has
// the header Holdfast-Idle and is deleted after a day. A notification is a message to
// holdfast.hint.BUCKET.PROCESS and is not stored. Each process sweeps: once a minute it removes the
// entries of ended sessions from names that were not written for a day.
//
// # Guarantees
//
// NATS is best effort. Its servers acknowledge writes that they have not synced to disk (they sync
// every two minutes, unless sync_interval says otherwise), and clusters whose servers crash or hang
// have been reported to lose acknowledged writes: a name can then be granted twice. If a process
// finds its session gone, or an older renewal of it than one that was answered, it has lost all
// that it held there. A process that is connected to a new or restarted server rewrites each of its
// holds with the next renewal, or finds it lost. So if the server that a process is connected to
// has lost writes, two hold the name at most until the TTL of the first has passed. Let the
// protected resource check the token.
//
// Order, slots, upgrades, minimum hold, lock delay, blocks of tokens, hand-over to another process,
// and match by token, as the contract in package [github.com/holdfast-go/holdfast/store] says. A
// process has one session for each TTL that its claims have, and one of ten seconds for its
// waiters. It renews a session once for all of its claims, every third of the TTL. A hold lasts as
// long as the session, counted from the sending of its last answered renewal. A renewal is a write
// that depends on the previous one, so a session that has ended stays ended.
//
// A process that finds the key of a session missing first closes it, by a write that no late renewal can
// overtake, and then removes the entries.
//
// TTLs are whole seconds, rounded up; the least is one. The holds of a crashed process are freed after the TTL.
// A change of leader takes seconds: a hold with a TTL below ten seconds does not survive it, and a waiter may
// get store.ErrUnavailable.
//
// A token is the time at which it was drawn, in microseconds, by the server's clock, or one more
// than the newest token of the name. So the tokens of a name increase even after the bucket was
// deleted, unless the servers' clocks were set back as well.
//
// Minimum hold and lock delay use the clock of the server that leads the bucket, as this process
// has read it within the last five minutes. The end of a session is not reported, so lock delay
// counts from when another process has found it.
//
// # Requirements
//
// NATS 2.11 or newer, with JetStream. The first claim creates the bucket if it is missing, with
// Options.Replicas. An existing bucket must have TTLs for messages on, direct gets off (servers
// that are behind answer them), a history of one, and no TTL of its own. In production use three or
// five replicas, and set sync_interval to always.
//
// The connection is yours. It should have MaxReconnects(-1), ReconnectBufSize(-1), so that no
// request is kept and sent late, and a PingInterval of a few seconds. Open sets these.
//
// # Rights
//
// A user needs, with B for the bucket:
//
//	publish    $KV.B.>  $JS.API.STREAM.INFO.KV_B  $JS.API.STREAM.MSG.GET.KV_B  $JS.API.STREAM.PURGE.KV_B  holdfast.hint.B.*
//	subscribe  _INBOX.>  holdfast.hint.B.*  $KV.B.n.*
//
// (the last to observe an election; without it, observers poll)
//
// and, to create the bucket, to publish to $JS.API.STREAM.CREATE.KV_B. With a domain D they are
// $JS.D.API.$KV.B.> and $JS.D.API.STREAM…, notifications as above.
package natsstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// DefaultBucket is the default of Options.Bucket.
const DefaultBucket = "holdfast"

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Bucket is the key-value bucket, DefaultBucket if empty: letters, digits, "-" and "_". Stores
	// with different buckets are independent.
	Bucket string

	// Replicas is how many servers keep the bucket, from 1 to 5, if the Store creates it; 1 if
	// zero. An existing bucket stays as it is.
	Replicas int

	// Domain is the JetStream domain of the bucket, if that is not the domain of the connected
	// server, but one behind a leaf node.
	Domain string
}

// A Store stores locks in NATS. It is a [store.Store], and also a Watcher, a NameWatcher, a Poller,
// an Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	record.WatchStore
	b *backend
}

// A backend connects package store/record to NATS.
type backend struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	opened  bool                   // opened and closed by us
	dialed  *atomic.Pointer[error] // why the newest attempt to connect failed; nil: unknown for a caller's connection
	address string                 // for messages
	o       Options

	retention time.Duration

	ctx   context.Context // of everything that outlives a call; ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	preparing chan struct{} // of capacity 1
	server    atomic.Int64  // connected to when a renewal was last answered

	mu      sync.Mutex
	bucket  *bucket // nil: not read on this connection
	own     map[session.ID]*own
	inboxes map[string]inbox
}

var _ interface {
	record.Backend
	session.Replaceable
} = (*backend)(nil)

// New returns a Store on the connection. The connection stays yours: the Store never closes it, and
// it must be open as long as the Store is used. New does no I/O. The error matches
// store.ErrInvalid.
func New(nc *nats.Conn, o *Options) (*Store, error) {
	b, err := newBackend(nc, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func storeOf(b *backend) *Store { return &Store{record.WatchStore{Store: record.New(b)}, b} }

func newBackend(nc *nats.Conn, o *Options) (*backend, error) {
	if nc == nil {
		return nil, fmt.Errorf("%w: the NATS connection is nil", store.ErrInvalid)
	}
	b := &backend{
		nc: nc, o: Options{Bucket: DefaultBucket, Replicas: 1}, retention: store.TokenRetention,
		preparing: make(chan struct{}, 1), own: map[session.ID]*own{}, inboxes: map[string]inbox{},
	}
	if o != nil {
		if o.Bucket != "" {
			b.o.Bucket = o.Bucket
		}
		if o.Replicas != 0 {
			b.o.Replicas = o.Replicas
		}
		b.o.Domain = o.Domain
	}
	if err := b.o.check(); err != nil {
		return nil, err
	}
	b.address = fmt.Sprintf("NATS at %s, bucket %s", hosts(nc.Servers()), b.o.Bucket)
	js, err := jetstream.New(nc)
	if b.o.Domain != "" {
		b.address += ", domain " + b.o.Domain
		js, err = jetstream.NewWithDomain(nc, b.o.Domain)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrInvalid, b.address, err)
	}
	b.js = js
	b.ctx, b.end = context.WithCancel(context.Background())
	return b, nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.address,
		Tokens: "when the bucket, or what was last written to it, is lost and the servers' clocks were set back as well",
		Loses: "best effort: NATS acknowledges what it has not synced to disk, unless sync_interval is always, and has lost acknowledged writes " +
			"when servers crashed or hung; with the bucket all locks. Have the resource check the token",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe, store.AccidentFailOver},
		Crash:   store.CrashTTL,
	}
}

// Close implements [record.Backend]. The connection of New stays open.
func (b *backend) Close() error {
	b.end()
	b.tasks.Wait()
	if b.opened {
		b.nc.Close()
	}
	return nil
}
