// Package mongostore keeps locks in a collection of MongoDB, using go.mongodb.org/mongo-driver/v2. It is a backend of
// package [github.com/holdfast-go/holdfast/store/record].
//
// # Stored form
//
// All documents are in one collection, holdfast.locks unless you set another in [Options]. The _id is binary: a letter,
// then bytes. v is the version of the format, 2; documents of a newer one are left alone.
//
//	n and a name        data, the record of the name, as package store/record writes it; rev, a random number that each write
//	                    draws; inbox, the notes of waiters that are not in the record yet; woke, the notifications of the
//	                    last write; at, its time; name, for people, if it is UTF-8
//	s and a session     at, the time of its last renewal; ttl, in milliseconds; over; calls; seen, when it was last checked
//	t and a number      a trial, for a minute
//
// Documents with the field expiresAt are deleted at that time by the TTL index expiresAt_ttl: a name a day after it
// became idle, a session a day after its end. The index is created in the background at the first use. Without it
// documents stay, and locks still work.
//
// # Guarantees
//
// Order, slots, upgrades, minimum hold, lock delay, blocks of tokens, hand-over to another process, and match by token,
// as defined in package [github.com/holdfast-go/holdfast/store]. TTLs are from 100 ms to 365 days. A process has one
// session for each TTL of its claims, and one of ten seconds for its waiters, and renews each once for all claims in it.
// A hold lasts as long as its session, counted from the sending of the last renewal that was answered.
//
// A record is changed by a findAndModify with plain operators, which the server does only if rev is unchanged since the
// read. It is acknowledged by a majority and its journals, whatever the client's write concern is, so an election loses no
// answered lease. A refused write appends a note to the same document, which does not change rev and conflicts with no
// other write. Records are read with the read concern "linearizable": a primary that was replaced and does not know it yet
// does not answer such a read. Each command is sent once, whatever the client's retryWrites is: package store/record
// resolves commands without an answer.
//
// Time is the server's, by $currentDate: that of a renewal, and that of a check of a session. A process that finds a
// session expired ends it, with a write that is refused if the session was renewed meanwhile, before any of its names is
// granted. After a fail-over the clock is that of the new primary; on a sharded cluster it is that of the session's shard.
// If a primary's clock is ahead, it can end a lease early, and its holder learns of that with the next renewal. Keep the
// clocks in step (NTP), and check the token.
//
// Tokens of a name increase while its document exists, and after that unless the server's clock is behind the newest one.
//
// On a replica set or a sharded cluster waiters are notified by a change stream, one per process, which reports a grant
// once a majority has it. On a standalone, and for a user without the right to watch, they poll, with growing pauses. So
// do observers of elections. Each observed name has a change stream, which takes one of the client's connections.
//
// If you come from DistributedLock.MongoDB of .NET: its collection is in [Options]; its other options are in
// holdfast.Options. The expiry (30 s by default) is TTL, the extension cadence (a third of that) is RenewEvery, and the
// busy wait (2 ms to 800 ms) is PollMin and PollMax, which are used only without change streams. Documents of that library
// are foreign here and left alone.
//
// # Requirements
//
// MongoDB 4.4 or newer, as a replica set, a sharded cluster or a standalone, with a storage engine that has a journal.
// If the collection is sharded, it must be sharded by _id alone. A record has at most 4 MiB, about 40,000 entries.
//
// Before the first write, and in holdfast doctor, there is a trial: four writers create one document at the same time,
// and then change it at the same time, and each time exactly one of them must succeed. A server that fails the trial is
// refused with an error that says so. Other servers that speak MongoDB's protocol have these of the required features:
//
//	                               DocumentDB (the engine on      FerretDB 2            Azure Cosmos DB (request units)
//	                               PostgreSQL; Azure's, too)
//	update by _id and rev          atomic, seen                   the same engine       not tested
//	upsert by _id and rev          one wins, seen                 the same engine       not tested
//	$push beside it                loses nothing, seen            the same engine       not tested
//	$currentDate                   never went back, seen          the same engine       not tested
//	majority, linearizable         accepted or unknown: not seen  not seen              not more than the account's consistency
//	change streams                 none: waiters poll             none                  a different kind
//	TTL index                      seen                           the same engine       has one
//	result                         used, if it passes the trial   used, if it passes    refused, by what it reports
//
// "Seen" refers to an engine built for this purpose, with a sketch of this format, not with this package, and not through
// a gateway. There PostgreSQL handles a crash or a fail-over. Amazon's DocumentDB was not tested.
//
// It was tested with a stand-in written from MongoDB's manual, internal/mongosim, because no MongoDB server was available.
// To run the tests on a server, set HOLDFAST_TEST_MONGODB to its URI, or have a mongod in the PATH. They then also test
// what the stand-in cannot: rights, a step-down, the TTL index, a collation, two mongos. The binary of
// go test -c ./mongostore is enough.
//
// # Rights
//
// These actions on the collection are enough:
//
//	find, insert, update   to lock
//	changeStream           for notifications; without, waiters and observers of elections poll
//	createIndex            to create the index; without, have somebody create it, or documents stay
package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// DefaultCollection is the collection unless Options.Collection is set.
const DefaultCollection = "holdfast.locks"

// Options of a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Collection keeps the locks; DefaultCollection if empty. Stores with different
	// collections do not share locks.
	Collection string
}

// A Store keeps locks in a collection: a [store.Store] that is also a Watcher, a
// Poller, an Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	record.WatchStore
	b *backend
}

// New returns a Store in the database, whose client stays yours: the Store never closes it,
// and it must be open while you use the Store. The client's write concern, read concern,
// read preference and retries do not matter. New does no I/O. The error matches
// store.ErrInvalid.
func New(db *mongo.Database, o *Options) (*Store, error) {
	b, err := newBackend(db, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func storeOf(b *backend) *Store { return &Store{record.WatchStore{Store: record.New(b)}, b} }

func newBackend(db *mongo.Database, o *Options) (*backend, error) {
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
	b := &backend{
		locks: db.Collection(name), address: fmt.Sprintf("MongoDB, collection %s of database %s", name, db.Name()),
		retention: store.TokenRetention, trying: make(chan struct{}, 1), own: map[session.ID]own{},
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b, nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.address,
		Tokens: "when the name's document is lost and the clock of the server that answers is behind the newest token",
		Loses: "nothing that was answered, as long as a majority of the members keeps its journal; a fail-over to a member whose clock " +
			"is ahead can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Close implements [record.Backend]. The client given to New stays open.
func (b *backend) Close() (err error) {
	b.end()
	b.tasks.Wait()
	if b.opened != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = b.opened.Disconnect(ctx)
	}
	return err
}
