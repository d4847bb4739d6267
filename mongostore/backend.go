package mongostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// form is the version of the stored format.
const form = 2

// maxRecord leaves space for notes and notifications in the 16 MiB of a document.
const maxRecord = 4 << 20

// maxInbox is how many notes one Load returns.
const maxInbox = 1000

// expires is the field of the TTL index. slack is added to each expiry, because the server's clock is not known to
// the millisecond.
const (
	expires   = "expiresAt"
	indexName = "expiresAt_ttl"
	slack     = 5 * time.Second
)

// A backend is a record.Backend in a collection of MongoDB.
type backend struct {
	locks     *mongo.Collection
	opened    *mongo.Client // opened by this package, which closes it; else nil
	address   string        // for messages
	retention time.Duration

	ctx     context.Context // of background work, ended by Close
	end     context.CancelFunc
	tasks   sync.WaitGroup
	indexed atomic.Bool // creating the index was started

	trying chan struct{} // of capacity 1: held while the server is tried
	mu     sync.Mutex
	level  string // the read concern of a Load; "" until the server was asked
	fit    bool   // the server has passed the trial
	clock  clock
	own    map[session.ID]own
}

// A clock is the server's clock as last read, in microseconds since 1970, at some time between sent and heard.
type clock struct {
	server      int64
	sent, heard store.Instant
}

// earliest and latest bound what the clock can show now.
func (c clock) earliest() int64 { return c.server + store.Now().Sub(c.heard).Microseconds() }
func (c clock) latest() int64   { return c.server + store.Now().Sub(c.sent).Microseconds() + 1000 }

// A stored is the document of a name or of a session.
type stored struct {
	V     int64         `bson:"v"`
	Rev   bson.Binary   `bson:"rev"` // random; each swap draws a new one
	Data  []byte        `bson:"data"`
	Inbox []note        `bson:"inbox"`
	At    bson.DateTime `bson:"at"` // of the last swap or renewal

	TTL   int64         `bson:"ttl"` // of a session, in milliseconds
	Calls int64         `bson:"calls"`
	Over  bool          `bson:"over"`
	Seen  bson.DateTime `bson:"seen"` // when a session was last read by another process
}

type note struct {
	Key  string `bson:"key"`
	Data []byte `bson:"data"`
}

// object returns a document from alternating keys and values.
func object(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

// binary returns the _id of a document. It is binary, so collations do not matter and a name can be any bytes.
func binary(kind byte, id []byte) bson.Binary { return bson.Binary{Data: append([]byte{kind}, id...)} }

func nameID(name string) bson.Binary { return binary('n', []byte(name)) }

func date(us int64, after time.Duration) bson.DateTime {
	return bson.DateTime((us + after.Microseconds()) / 1000)
}

func newRev() bson.Binary {
	rev := make([]byte, 12)
	rand.Read(rev) // never fails
	return bson.Binary{Data: rev}
}

func revOf(version string) bson.Binary { return bson.Binary{Data: []byte(version)} }

// now makes the server write the current time.
var now = object("at", true)

// durable is the write concern of every write, whatever the client's is.
var durable = object("w", "majority", "j", true) //mutant:mongo-one-member-is-enough

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Notifies: true, Clock: true, MaxRecord: maxRecord, Retention: b.retention}
}

// run sends one command to the primary, once. The driver does not retry raw commands, whatever the client's
// retryWrites is. The caller resolves commands without an answer.
func (b *backend) run(ctx context.Context, command bson.D, reply any) error {
	// If the context has the caller's session, the command would be part of its transaction.
	ctx = mongo.NewSessionContext(ctx, nil)
	return b.locks.Database().RunCommand(ctx, command, options.RunCmd().SetReadPreference(readpref.Primary())).Decode(reply)
}

// modify updates the one document that matches the query, and returns it, or the given fields of it, after the
// update. It returns nil if none matched, or if an upsert conflicted with another document. When the server answers,
// a majority has the write in its journal.
func (b *backend) modify(ctx context.Context, query, update bson.D, upsert bool, fields ...any) (*stored, error) {
	var reply struct {
		Value *stored `bson:"value"`
	}
	command := object("findAndModify", b.locks.Name(), "query", query, "update", update, "new", true, "upsert", upsert, "writeConcern", durable)
	if len(fields) > 0 {
		command = append(command, bson.E{Key: "fields", Value: object(fields...)})
	}
	sent := store.Now()
	err := b.run(ctx, command, &reply)
	switch {
	case upsert && hasCode(err, duplicateKey):
		return nil, nil
	case err != nil:
		return nil, b.failed(err)
	}
	if d := reply.Value; d != nil && update[0].Key == "$currentDate" {
		at := d.At
		if d.Seen > 0 && update[0].Value.(bson.D)[0].Key == "seen" {
			at = d.Seen
		}
		b.heard(at, sent)
	}
	return reply.Value, nil
}

// heard notes the server's clock from the answer to a request.
func (b *backend) heard(at bson.DateTime, sent store.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = clock{int64(at) * 1000, sent, store.Now()}
}

func (b *backend) time() clock {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clock
}

// find reads one document with all writes that a majority has confirmed: the primary answers only once it has made sure
// that it is still the primary. Other reads may be answered by one that was replaced and does not know it.
func (b *backend) find(ctx context.Context, id bson.Binary) (bson.Raw, error) {
	b.mu.Lock()
	level := b.level
	b.mu.Unlock()
	var reply struct {
		Cursor struct {
			FirstBatch []bson.Raw `bson:"firstBatch"`
		} `bson:"cursor"`
	}
	err := b.run(ctx, object("find", b.locks.Name(), "filter", object("_id", id), "limit", 1, "singleBatch", true,
		"readConcern", object("level", level)), &reply)
	if err != nil || len(reply.Cursor.FirstBatch) == 0 {
		return nil, b.failed(err)
	}
	return reply.Cursor.FirstBatch[0], nil
}

// parse reads a document.
func (b *backend) parse(what string, raw bson.Raw) (d stored, err error) {
	if v, ok := raw.Lookup("v").AsInt64OK(); ok && v > form { //mutant:mongo-newer-form
		return d, store.NewerFormError(fmt.Sprintf("%s in %s", what, b.address), int(v), form)
	}
	if err = bson.Unmarshal(raw, &d); err != nil || d.V != form { //mutant:mongo-foreign-document
		err = fmt.Errorf("%w: the document of %s in %s was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt, what, b.address)
	}
	return d, err
}

// read returns the record of a document.
func (d *stored) read(now int64) record.Record {
	r := record.Record{Data: d.Data, Version: string(d.Rev.Data), Now: now, More: len(d.Inbox) > maxInbox}
	for _, n := range d.Inbox[:min(len(d.Inbox), maxInbox)] {
		r.Inbox = append(r.Inbox, record.Note{Key: n.Key, Data: n.Data, Version: n.Key})
	}
	return r
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (r record.Record, err error) {
	if err = b.prepare(ctx); err != nil && !errors.Is(err, store.ErrDenied) { //mutant:mongo-reader-looks
		return r, err
	}
	raw, err := b.find(ctx, nameID(name))
	if err != nil || raw == nil {
		return record.Record{Now: b.time().earliest()}, err
	}
	d, err := b.parse(fmt.Sprintf("%q", name), raw)
	if err != nil {
		return r, err
	}
	return d.read(b.time().earliest()), nil
}

// Swap implements [record.Backend]. It is an update that requires the random number of the previous swap and the notes
// that it takes in. An upsert requires its own new number, so it matches no other document and cannot run twice.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err = b.prepare(ctx); err != nil {
		return out, err
	}
	b.index()
	rev, old := newRev(), revOf(s.Old.Version)
	set := object("rev", rev, "data", bson.Binary{Data: s.Data}, "woke", letters(rev, s.Notifications))
	if s.Old.Version == "" {
		if old = rev; utf8.ValidString(s.Name) {
			set = append(set, bson.E{Key: "name", Value: s.Name}) // for people who read the collection
		}
	}
	query := object("_id", nameID(s.Name), "v", int32(form), "rev", old) //mutant:mongo-swap-depends
	update := object("$currentDate", now)                                //mutant:mongo-swap-leaves-notes
	if s.Idle {
		set = append(set, bson.E{Key: expires, Value: date(b.time().latest(), b.retention+slack)}) //mutant:mongo-idle-is-kept
	} else {
		update = append(update, bson.E{Key: "$unset", Value: object(expires, "")}) //mutant:mongo-used-again-stays
	}
	if len(s.Old.Inbox) > 0 {
		keys := make(bson.A, len(s.Old.Inbox))
		for i := range keys {
			keys[i] = s.Old.Inbox[i].Version
		}
		query = append(query, bson.E{Key: "inbox.key", Value: object("$all", keys)})                              //mutant:mongo-note-is-there
		update = append(update, bson.E{Key: "$pull", Value: object("inbox", object("key", object("$in", keys)))}) //mutant:mongo-note-goes
	}
	d, err := b.modify(ctx, query, append(update, bson.E{Key: "$set", Value: set}), s.Old.Version == "", "rev", 1, "inbox", 1, "at", 1)
	switch {
	case err != nil:
		return out, err
	case d == nil && s.Join != nil:
		return b.join(ctx, s.Name, s.Join.Notes)
	case d == nil:
		return out, nil
	}
	return record.Outcome{Done: true, Current: true, Inbox: true, Now: d.read(int64(d.At) * 1000)}, nil
}

// join appends to the inbox. It requires only that the name's document exists, and does not change its number.
func (b *backend) join(ctx context.Context, name string, notes []record.Note) (out record.Outcome, err error) {
	each := make(bson.A, len(notes))
	for i, n := range notes {
		each[i] = object("key", n.Key, "data", bson.Binary{Data: n.Data})
	}
	d, err := b.modify(ctx, object("_id", nameID(name), "v", int32(form)), object("$push", object("inbox", object("$each", each))), false)
	if err != nil || d == nil {
		return out, err
	}
	return record.Outcome{Joined: true, Current: true, Inbox: true, Now: d.read(b.time().earliest())}, nil
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		if err := b.prepare(ctx); err != nil && !errors.Is(err, store.ErrDenied) {
			yield(record.Named{}, err)
			return
		}
		filter := object("v", object("$gt", int32(1)), "rev", object("$exists", true), expires, object("$exists", false))
		if unwritten > 0 {
			filter = append(filter, bson.E{Key: "at", Value: object("$lt", date(b.time().latest(), -unwritten))}) //mutant:mongo-young-listed
		}
		if err := b.each(ctx, filter, func(id []byte, raw bson.Raw) bool {
			if id[0] != 'n' {
				return true
			}
			one := record.Named{Name: string(id[1:])}
			d, err := b.parse(fmt.Sprintf("%q", one.Name), raw)
			if err == nil {
				one.Record = d.read(b.time().earliest())
			}
			return yield(one, err)
		}); err != nil {
			yield(record.Named{}, b.failed(err))
		}
	}
}

// each calls f with the documents of this package that match the filter, until f returns false. The documents may be
// stale.
func (b *backend) each(ctx context.Context, filter bson.D, f func(id []byte, raw bson.Raw) bool) error {
	cursor, err := b.locks.Database().RunCommandCursor(mongo.NewSessionContext(ctx, nil), object("find", b.locks.Name(), "filter", filter),
		options.RunCmd().SetReadPreference(readpref.Primary()))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		if _, id, ok := cursor.Current.Lookup("_id").BinaryOK(); ok && len(id) > 0 && !f(id, cursor.Current) {
			return nil
		}
	}
	return cursor.Err()
}

// index starts creating the TTL index, once, in the background, because locks do not need it. Without the index, or the
// right to create it, unused documents stay.
func (b *backend) index() {
	if b.indexed.Swap(true) { //mutant:mongo-index-made-each-swap
		return
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
		defer cancel()
		var reply bson.Raw
		_ = b.run(ctx, object("createIndexes", b.locks.Name(), "indexes",
			bson.A{object("key", object(expires, int32(1)), "name", indexName, "expireAfterSeconds", int32(0))}), &reply)
	})
}
