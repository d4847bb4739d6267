// Package natsstore keeps locks in NATS JetStream, in a key-value bucket.
//
// # Stored form
//
// Two kinds of keys in one bucket ("holdfast" unless Options say otherwise), each
// with one JSON object that begins with the version of the form, "v":
//
//	n.NAME      a name: its limit, its newest token, and its entries in order
//	s.SESSION   a session, which has a TTL: NATS deletes it when that is over
//
// In a name all bytes but ASCII letters, digits, "-" and "_" are written as "="
// and two hexadecimal digits. Each entry names the session that keeps it. A name
// is changed as package store/queue says, by a write that NATS does only if nobody
// has written the key since it was read. What is idle is deleted after a day. Each
// process sweeps: once a minute it takes out of what nobody has written for a day the
// entries whose session is gone.
//
// # Guarantees
//
// NATS is best effort. Its servers acknowledge what they have not synced to disk
// (every two minutes, unless sync_interval says otherwise), and losses of
// acknowledged writes are reported of clusters whose servers crash or hang: a
// name can then be granted twice. Have what the lock protects check the token.
//
// Order, slots, upgrades, minimum hold, blocks of tokens, hand-over to another
// process, and match by token, as the rule says. A process has one session for
// each TTL that its claims have, and renews it once for all of them, every third
// of the TTL, as long as it is open. What a claim holds lasts as long as the session,
// counted from the sending of its last answered renewal, and at most for its own TTL
// since it was last renewed: what is not renewed any more is ended by its own process,
// if that lives. A renewal is a write that depends on the one before, so a session
// that is over stays so.
//
// Whoever meets an entry whose session is gone first closes the session's key, by a
// write that no late renewal can pass, and then takes the entry out.
//
// TTLs are whole seconds, rounded up, the least is one. What a crashed process
// held comes free with the TTL; who waits looks then. A change of leader takes
// seconds: a TTL below ten does not survive it as a hold, and who waits may be told
// that the store is unavailable.
//
// A token is the time, in microseconds, at which it was drawn, as the server has
// it, or one more than the newest of the name. So the tokens of a name increase also
// when the bucket was deleted, unless the servers' clocks were set back as well.
//
// A minimum hold is counted on the clock of the server that led the bucket when this
// process last connected. It keeps no lock delay.
//
// # Requirements
//
// NATS 2.11 or newer, with JetStream. The bucket is made with the first claim if
// it is not there; Options.Replicas is for that. One that others have made must
// have its TTLs for messages on, direct gets off (they are answered by servers that
// are behind), a history of one, and no TTL of its own. In production it has three
// or five replicas, and sync_interval is always.
//
// The connection is the caller's. It should have MaxReconnects(-1),
// ReconnectBufSize(-1), which keeps no requests to send them late, and
// PingInterval of a few seconds: Open sets these.
//
// # Rights
//
// A user needs, with B for the bucket:
//
//	publish    $KV.B.>  $JS.API.STREAM.INFO.KV_B  $JS.API.STREAM.MSG.GET.KV_B  holdfast.hint.B.*
//	subscribe  _INBOX.>  holdfast.hint.B.*
//
// and, if it is to make the bucket, to publish to $JS.API.STREAM.CREATE.KV_B. With a
// domain D they are $JS.D.API.$KV.B.> and $JS.D.API.STREAM…, hints as above.
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
)

// DefaultBucket is the bucket unless Options say otherwise.
const DefaultBucket = "holdfast"

// The range of TTLs and minimum holds.
const (
	minTTL = time.Second
	maxTTL = 365 * 24 * time.Hour
)

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Bucket is the key-value bucket, DefaultBucket if empty: letters, digits,
	// "-" and "_". Stores with different buckets have nothing to do with each other.
	Bucket string

	// Replicas is how many servers keep the bucket, from 1 to 5, if it is made
	// here; 1 if zero. One that is there stays as it is.
	Replicas int

	// Domain is the JetStream domain that has the bucket, if it is not that of the
	// server at the other end of the connection, but one behind a leaf node.
	Domain string
}

// A Store keeps locks in NATS. Its methods are safe for concurrent use.
type Store struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	own     bool                   // opened by us, so closed by us
	dialed  *atomic.Pointer[error] // why the newest try to connect failed; nil: not ours to know
	address string                 // for people
	o       Options

	ctx   context.Context // of all that outlives a call, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	preparing chan struct{} // has room for one
	turns     turns

	mu       sync.Mutex
	bucket   *bucket // nil: not looked at since the connection was made
	links    uint64  // how often the connection had been made anew then
	made     time.Time
	known    map[string]known           // the newest write of a name that we know of
	sessions map[time.Duration]*session // the present one for each TTL
	retired  map[*session]bool          // those that end when what they keep has ended
	alive    map[string]store.Instant   // sessions of others: they last until then at least
	over     map[string]store.Instant   // sessions that are closed, since when we know
	mine     map[store.ID]*mine         // the claims of this process
	tending  bool
	sweepAt  store.Instant // the next sweep
	wake     chan struct{} // to tend at once

	swept uint64 // the sweep's alone: the message that it has come to
}

var _ interface {
	store.Store
	store.Watcher
	store.Looker
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the connection, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. New does no
// I/O. The error matches store.ErrInvalid.
func New(nc *nats.Conn, o *Options) (*Store, error) {
	if nc == nil {
		return nil, fmt.Errorf("%w: the NATS connection is nil", store.ErrInvalid)
	}
	s := &Store{
		nc: nc, o: Options{Bucket: DefaultBucket, Replicas: 1},
		preparing: make(chan struct{}, 1), wake: make(chan struct{}, 1), turns: turns{of: map[string]*turn{}},
		known: map[string]known{}, sessions: map[time.Duration]*session{}, retired: map[*session]bool{},
		alive: map[string]store.Instant{}, over: map[string]store.Instant{}, mine: map[store.ID]*mine{},
	}
	if o != nil {
		if o.Bucket != "" {
			s.o.Bucket = o.Bucket
		}
		if o.Replicas != 0 {
			s.o.Replicas = o.Replicas
		}
		s.o.Domain = o.Domain
	}
	if err := s.o.check(); err != nil {
		return nil, err
	}
	s.address = fmt.Sprintf("NATS at %s, bucket %s", hosts(nc.Servers()), s.o.Bucket)
	js, err := jetstream.New(nc)
	if s.o.Domain != "" {
		s.address += ", domain " + s.o.Domain
		js, err = jetstream.NewWithDomain(nc, s.o.Domain)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrInvalid, s.address, err)
	}
	s.js = js
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Second,
		Tokens: "when the bucket, or what was last written to it, is lost and the servers' clocks were set back as well",
		Loses: "best effort: NATS acknowledges what it has not synced to disk, unless sync_interval is always, and has lost acknowledged writes " +
			"when servers crashed or hung; with the bucket all locks. Have the resource check the token",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe, store.AccidentFailOver},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromiseLockDelay: "NATS does not tell for long when a session ended",
			store.PromisePlaceTime: "a place is kept until the session of its process ends, which is after at most the TTL",
			store.PromiseExpiry:    "the claims of one process and TTL have one session, which is renewed for all of them",
		},
	}
}

// closePatience bounds how long Close waits for NATS to end the sessions.
const closePatience = 2 * time.Second

// Close implements [store.Store]: it ends the sessions, and with them all that
// they keep. The connection of New stays open.
func (s *Store) Close() error {
	s.end()
	s.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	s.mu.Lock()
	all := s.open()
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, sess := range all {
		// What cannot be ended now ends with its TTL.
		closing.Go(func() { _, _ = s.closeKey(ctx, sess.id, sess.seq) })
	}
	closing.Wait()
	if s.own {
		s.nc.Close()
	}
	return nil
}
