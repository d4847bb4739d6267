package mongostore

import (
	"context"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

const (
	// awaitFor is how long the server waits for a change before it returns an empty answer.
	awaitFor = 5 * time.Second
	// A broken stream is reopened after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// A letter is a notification, in the field woke of its name's document. Each swap rewrites that field, and a change
// stream reports the change once a majority has it. A list that is rewritten unchanged would not be reported, so each
// letter has the number of its swap.
type letter struct {
	Process bson.Binary `bson:"p"`
	Text    bson.Binary `bson:"t"`
	Rev     bson.Binary `bson:"rev"`
}

func letters(rev bson.Binary, all []record.Notification) []letter {
	out := make([]letter, len(all))
	for i := range all {
		out[i] = letter{processOf(all[i].ID.Process()), bson.Binary{Data: record.AppendNotifications(nil, all[i:i+1])}, rev} //mutant:mongo-same-letter-again
	}
	return out
}

func processOf(p store.Process) bson.Binary { return bson.Binary{Data: p[:]} }

// Listen implements [record.Backend]. It opens one change stream, until Close. The error matches store.ErrUnsupported
// if the server has no change streams.
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	return b.follow(ctx, b.ctx, ofProcess(p), func(stream *mongo.ChangeStream) {
		deliver(stream, p, sink)
	}, func() { sink(record.Notification{}) })
}

// WatchRecord implements [record.NameWatcher]. It opens a change stream for the name's document only, which takes one
// of the client's connections. The error matches store.ErrUnsupported if the server has no change streams.
func (b *backend) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	watching, stop := context.WithCancel(b.ctx)
	err = b.follow(ctx, watching, ofName(name), func(*mongo.ChangeStream) {
		changed() //mutant:mongo-observer-not-told
	}, changed)
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// follow opens a stream of the changes that pass the stages, and calls heard for each, until watching ends. If the
// stream breaks, follow reopens it and calls again, because changes in between are missed. follow returns once the first
// stream is open, or with the error that prevented it.
func (b *backend) follow(ctx, watching context.Context, stages bson.A, heard func(*mongo.ChangeStream), again func()) error {
	stream, err := b.watch(ctx, stages)
	if err != nil {
		return b.failed(err)
	}
	b.tasks.Go(func() {
		pause := leastPause
		for {
			if stream != nil {
				pause = leastPause
				for stream.Next(watching) {
					heard(stream)
				}
				end(stream)
			}
			select {
			case <-watching.Done():
				return
			case <-time.After(pause/2 + rand.N(pause)):
			}
			pause = min(2*pause, mostPause)
			if stream, err = b.watch(watching, stages); err != nil {
				stream = nil
				continue
			}
			again() //mutant:mongo-nobody-told-after-break
		}
	})
	return nil
}

// end makes the server close a stream.
func end(stream *mongo.ChangeStream) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream.Close(ctx)
}

// ofProcess returns the stages of a stream of the notifications for one process.
func ofProcess(p store.Process) bson.A {
	return bson.A{
		object("$match", object("$or", bson.A{
			object("fullDocument.woke.p", processOf(p)), object("updateDescription.updatedFields.woke.p", processOf(p)),
		})),
		object("$project", object("documentKey", int32(1), "fullDocument.woke", int32(1), "updateDescription.updatedFields.woke", int32(1))),
	}
}

// ofName returns the stages of a stream that reports each write of a name's document, without its content.
func ofName(name string) bson.A {
	return bson.A{object("$match", object("documentKey._id", nameID(name))), object("$project", object("documentKey", int32(1)))}
}

// watch opens a stream.
func (b *backend) watch(ctx context.Context, stages bson.A) (*mongo.ChangeStream, error) {
	locks := b.locks.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	return locks.Watch(mongo.NewSessionContext(ctx, nil), stages, options.ChangeStream().SetMaxAwaitTime(awaitFor))
}

// deliver passes the notifications for p in a change to the sink.
func deliver(stream *mongo.ChangeStream, p store.Process, sink func(record.Notification)) {
	type woken struct {
		Woke []letter `bson:"woke"`
	}
	var e struct {
		Key struct {
			ID bson.Binary `bson:"_id"`
		} `bson:"documentKey"`
		Made   woken `bson:"fullDocument"`
		Change struct {
			To woken `bson:"updatedFields"`
		} `bson:"updateDescription"`
	}
	if stream.Decode(&e) != nil || len(e.Key.ID.Data) < 2 {
		return // not a document of holdfast
	}
	for _, l := range append(e.Made.Woke, e.Change.To.Woke...) {
		record.ParseNotifications(l.Text.Data, func(n record.Notification) {
			if n.ID.Process() == p { //mutant:mongo-letters-of-others
				sink(n)
			}
		})
	}
}
