// Package mongostore keeps locks in a collection of MongoDB, by way of
// go.mongodb.org/mongo-driver/v2.
//
// # Stored form
//
// A document a name in one collection, holdfast.locks unless [Options] say
// otherwise. Its _id is the name; v is the version of the form, 1: a document of
// a newer one, or of none, is left alone. entries is the queue, in order, limit
// the limit of all of them, fencingToken the newest token drawn, and acquiredAt
// when; at, woke and op tell of the newest change. Instants are dates by the
// server's clock, durations milliseconds.
//
// A release keeps the document with its token. The TTL index expiresAt_ttl has
// the server delete it a day after the last of its entries was over; it is made
// in the background at the first use. Without it documents stay, and locks work
// as well.
//
// # Guarantees
//
// The whole rule: order, minimum hold, lock delay, slots, upgrades, blocks of
// tokens. Each operation is one findOneAndUpdate with an aggregation pipeline,
// which judges by the time of the server ($$NOW, in milliseconds), acknowledged
// by a majority and its journals whatever the client's write concern is. So an
// election loses no lease that was answered. A claim that is refused writes
// nothing. Many renewals take two round trips.
//
// Every operation may be repeated, by the driver (retryable writes) and by the
// engine. Two first claims of a name can meet: the one that the unique index of
// _id refuses is repeated, at most three times. A write that was done and not
// acknowledged (a write concern error) counts as unclear.
//
// Tokens of a name strictly increase as long as its document is there, and
// beyond that as long as the clock of the server is not behind the newest one.
// Expiries are judged by the clock of the primary, after a fail-over by that of
// the new one; through mongos by that of the mongos which the driver happens to
// ask. Where their clocks differ by more than the safety margin a lease can end
// early for others: keep them in step (NTP), and check the token.
//
// On a replica set or a sharded cluster waiters are woken by a change stream, one
// a process, which tells a grant once a majority has it. On a standalone, and for
// a user who may not watch, they look, reading only, in growing pauses.
//
// Who comes from DistributedLock.MongoDB of .NET finds its options here: the
// collection in [Options]; the expiry, 30 s unless told otherwise, in TTL of
// holdfast.Options, and the cadence of its extension, a third of that, in
// RenewEvery; the busy wait, 10 ms to 800 ms, in PollMin and PollMax. It is always
// adaptive, each pause half as long again as the one before, give or take a fifth,
// and ends where the obstacle ahead does; it is the engine's, and only where nobody
// wakes. Documents of that library are foreign here, and left alone.
//
// # Requirements
//
// MongoDB 4.4 or newer, as a replica set, a sharded cluster or a standalone; the
// collection without a collation of its own, and sharded, if at all, by _id
// alone (holdfast doctor tells a collation). A storage engine that keeps a journal.
//
// What it was tested on: a stand-in that was written from MongoDB's manual, in
// internal/mongosim. No MongoDB server could be had where it was made. The tests
// run on one that HOLDFAST_TEST_MONGODB names by its URI, or on a mongod in the
// PATH, and then show what the stand-in cannot, too: rights, a step-down, the TTL
// index, a collation, two mongos. The binary of go test -c ./mongostore is enough.
//
// # Rights
//
// These actions on the collection suffice:
//
//	find, insert, update   to lock
//	changeStream           to be woken; without, waiters look now and then
//	createIndex            to make the index; without, have somebody make it, or documents stay
package mongostore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/store"
)

// DefaultCollection is the collection unless Options say otherwise.
const DefaultCollection = "holdfast.locks"

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// indexName is the TTL index that deletes what was not used for a day.
const indexName = "expiresAt_ttl"

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Collection keeps the locks; DefaultCollection if empty. Stores with
	// different collections have nothing to do with each other.
	Collection string
}

// A Store keeps locks in a collection. Its methods are safe for concurrent use.
type Store struct {
	locks   *mongo.Collection
	own     *mongo.Client // opened by us, so closed by us; else nil
	address string        // for people
	clock   func() int64  // of a test: microseconds; nil: the server's

	ctx     context.Context // of what runs in the background, ended by Close
	end     context.CancelFunc
	tasks   sync.WaitGroup
	indexed atomic.Bool // the index was seen to

	// timeless says that the server lets no projection of a findAndModify know
	// the time: what changes nothing is read once more.
	timeless atomic.Bool
}

var _ interface {
	store.Store
	store.Watcher
	store.Looker
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store in the database, whose client stays the caller's: it is
// never closed here, and must be open for as long as the Store is used. The
// client's write concern, read concern and read preference do not matter. New
// does no I/O. The error matches store.ErrInvalid.
func New(db *mongo.Database, o *Options) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the database is nil", store.ErrInvalid)
	}
	name := DefaultCollection
	if o != nil && o.Collection != "" {
		name = o.Collection
	}
	if err := checkNamespace(db.Name(), name); err != nil {
		return nil, err
	}
	journal := true
	s := &Store{
		// Reads are of the primary, and decide nothing.
		locks: db.Collection(name, options.Collection().
			SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}). //mutant:mongo-member-word-enough
			SetReadConcern(readconcern.Local()).SetReadPreference(readpref.Primary())),
		address: fmt.Sprintf("MongoDB, collection %s of database %s", name, db.Name()),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Millisecond,
		Tokens: "when the name's document is lost and the clock of the server that answers is behind the newest token",
		Loses: "nothing that was answered, as long as a majority of the members keeps its journal; a fail-over to a member whose clock " +
			"is ahead can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Close implements [store.Store]. The client of New stays open.
func (s *Store) Close() (err error) {
	s.end()
	s.tasks.Wait()
	if s.own != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = s.own.Disconnect(ctx)
	}
	return err
}

// now is the time of the server, as an expression.
func (s *Store) now() any {
	if s.clock == nil {
		return "$$NOW"
	}
	return literal(bson.DateTime(s.clock() / 1000))
}

// index makes the TTL index, once and beside the locking, which needs it not: a
// server that cannot, or may not, keeps idle documents.
func (s *Store) index() {
	if s.indexed.Swap(true) { //mutant:mongo-index-made-each-ask
		return
	}
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
		defer cancel()
		s.locks.Indexes().CreateOne(ctx, mongo.IndexModel{
			Keys: object("expiresAt", 1), Options: options.Index().SetName(indexName).SetExpireAfterSeconds(0),
		})
	})
}
