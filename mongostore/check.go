package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/store"
)

// leastWire is the protocol version of MongoDB 4.4.
const leastWire = 9

// clockAge is how long the server's clock is assumed to run at the local clock's rate.
const clockAge = 5 * time.Minute

// A hello is what a server reports about itself.
type hello struct {
	Wire    int           `bson:"maxWireVersion"`
	Set     string        `bson:"setName"`
	Message string        `bson:"msg"`
	Primary string        `bson:"primary"`
	Me      string        `bson:"me"`
	Time    bson.DateTime `bson:"localTime"`
	Inside  struct {
		Engine  bson.RawValue `bson:"documentdb_versions"`
		Engine1 bson.RawValue `bson:"cosmos_versions"`
	} `bson:"internal"`
}

func (b *backend) hello(ctx context.Context) (h hello, err error) {
	sent := store.Now()
	if err = b.run(ctx, object("hello", 1), &h); err != nil {
		return h, b.failed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.level = "local"; h.Set != "" || h.Message == "isdbgrid" {
		b.level = "linearizable" //mutant:mongo-level
	}
	if !b.fit { // until the trial reads a better clock: through a mongos, this is the clock of the mongos
		b.clock = clock{int64(h.Time) * 1000, sent, store.Now()}
	}
	return h, nil
}

// kind returns the kind of server that it reports, or an error if that kind cannot be used, whatever a trial shows.
func (b *backend) kind(h hello) (what string, err error) {
	never := func(why string) error { return fmt.Errorf("%w: %s %s", store.ErrUnsupported, b.address, why) }
	if h.Set == "globaldb" || strings.Contains(h.Primary+h.Me, ".mongo.cosmos.azure.com") { //mutant:mongo-cosmos-is-refused
		return "", never("is Azure Cosmos DB: it acknowledges a write before a majority has it, and where more than one region may write, the last write wins, so two would hold a lock: use MongoDB, or another store")
	}
	switch {
	case h.Wire < leastWire:
		return "", never(fmt.Sprintf("speaks version %d of the protocol, and locks need %d: use MongoDB 4.4 or newer", h.Wire, leastWire))
	case len(h.Inside.Engine.Value)+len(h.Inside.Engine1.Value) > 0:
		return "DocumentDB, an engine on PostgreSQL: what was tried works; waiters poll, and what survives a crash or a fail-over depends on that PostgreSQL", nil
	case h.Message == "isdbgrid":
		return "a sharded cluster: each shard uses its own clock", nil
	case h.Set != "":
		return "replica set " + h.Set, nil
	}
	return "a standalone: waiters poll, and what its disk loses is lost; turn it into a replica set, if only of one member", nil
}

// prepare makes sure, once, that the server does what locks need, and that its clock was read recently. After an error
// that matches store.ErrDenied, a Load still works.
func (b *backend) prepare(ctx context.Context) error {
	ready := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.fit && store.Now() < b.clock.heard.Add(clockAge)
	}
	if ready() {
		return nil
	}
	select {
	case b.trying <- struct{}{}:
		defer func() { <-b.trying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ready() {
		return nil
	}
	h, err := b.hello(ctx)
	if err != nil {
		return err
	}
	if _, err := b.kind(h); err != nil {
		return err
	}
	if err := b.try(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fit = true
	return nil
}

// racers is how many writers a trial runs at the same time.
const racers = 4

// try makes the server do what locks need, in a document of its own. Exactly one of several creators must succeed, then
// exactly one of several writers that change that version, and the document must have the value of that writer and of
// no other.
func (b *backend) try(ctx context.Context) error {
	trial := binary('t', newRev().Data)
	made, err := b.race(ctx, "make", func(i int, rev bson.Binary) (*stored, error) {
		return b.modify(ctx, object("_id", trial, "v", int32(form), "rev", rev), object("$currentDate", now, "$set", object("data", rev)), true)
	})
	if err != nil {
		return err
	}
	next, err := b.race(ctx, "change", func(i int, rev bson.Binary) (*stored, error) {
		note := object("key", string(rune('a'+i)), "data", rev)
		return b.modify(ctx, object("_id", trial, "v", int32(form), "rev", made), object("$currentDate", now,
			"$set", object("rev", rev, expires, date(b.time().latest(), time.Minute)), "$unset", object("data", ""), "$push", object("inbox", object("$each", bson.A{note}))), false)
	})
	if err != nil {
		return err
	}
	// A $pull must keep what others pushed.
	query := object("_id", trial, "v", int32(form), "rev", next)
	last := bson.A{object("key", "z", "data", next)}
	if _, err := b.modify(ctx, query, object("$push", object("inbox", object("$each", last))), false); err != nil {
		return err
	}
	if _, err := b.modify(ctx, append(query, bson.E{Key: "inbox.key", Value: object("$all", bson.A{"z"})}), object("$currentDate", now,
		"$pull", object("inbox", object("key", object("$in", bson.A{"z"}))), "$inc", object("calls", int64(1))), false); err != nil {
		return err
	}
	raw, err := b.find(ctx, trial)
	if err != nil {
		return err
	}
	d, err := b.parse("a trial", raw)
	if err != nil || string(d.Rev.Data) != string(next.Data) || len(d.Inbox) != 1 || string(d.Inbox[0].Data) != string(next.Data) || len(d.Data) > 0 || d.Calls != 1 || d.At <= 0 { //mutant:mongo-trial-is-read
		return b.unfit("does not have what was written last")
	}
	return nil
}

func (b *backend) unfit(why string) error {
	return fmt.Errorf("%w: %s is not safe for locks, two could hold one: it %s; use MongoDB, or another store", store.ErrUnsupported, b.address, why)
}

// race runs several writes at the same time, and returns the number of the one that succeeded.
func (b *backend) race(ctx context.Context, what string, write func(i int, rev bson.Binary) (*stored, error)) (won bson.Binary, err error) {
	var all sync.WaitGroup
	var revs [racers]bson.Binary
	var found [racers]*stored
	var errs [racers]error
	for i := range racers {
		revs[i] = newRev()
		all.Go(func() { found[i], errs[i] = write(i, revs[i]) })
	}
	all.Wait()
	winners := 0
	for i, d := range found {
		if d != nil {
			winners++
			won = revs[i]
			if string(d.Rev.Data) != string(won.Data) {
				winners = racers
			}
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return won, err
	}
	if winners != 1 { //mutant:mongo-one-wins
		return won, b.unfit(fmt.Sprintf("reported success to %d of %d writers that tried to %s a document, which only one of them may %s", winners, racers, what, what))
	}
	return won, nil
}

// Check implements [record.Backend]. It writes a document for the trial, which the TTL index deletes.
func (b *backend) Check(ctx context.Context) []store.Finding {
	sent := store.Now()
	wall := time.Now()
	h, err := b.hello(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: err}}
	}
	took := store.Now().Sub(sent)
	f := store.Finding{About: "server"}
	f.Found, f.Err = b.kind(h)
	f.Warning = h.Set == "" && h.Message != "isdbgrid"
	all := []store.Finding{f, store.ClockFinding(h.Time.Time().Sub(wall.Add(took/2)), took/2+time.Millisecond)}
	f = store.Finding{About: "collection", Found: b.locks.Name() + ": of several writers at once, exactly one succeeded"}
	if f.Err = b.try(ctx); f.Err != nil {
		f.Found = ""
	}
	return append(all, f)
}
