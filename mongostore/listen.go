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
	// awaitFor is how long the server waits for a change before it says that there is none.
	awaitFor = 5 * time.Second
	// A stream that broke is opened anew after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// A letter is a notification, in the field woke of the name that it is of. Each swap writes that field anew, and a change
// stream tells it once a majority has it. A list that is as it was would be no change: so each letter has the number of the swap.
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

// Listen implements [record.Backend]: one change stream, until Close. The error matches store.ErrUnsupported where there
// are none.
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	stream, err := b.watch(ctx, p)
	if err != nil {
		return b.failed(err)
	}
	b.tasks.Go(func() {
		pause := leastPause
		for {
			if stream != nil {
				pause = leastPause
				b.deliver(stream, p, sink)
			}
			select {
			case <-b.ctx.Done():
				return
			case <-time.After(pause/2 + rand.N(pause)):
			}
			pause = min(2*pause, mostPause)
			if stream, err = b.watch(b.ctx, p); err != nil {
				stream = nil
				continue
			}
			sink(record.Notification{}) //mutant:mongo-nobody-told-after-break
		}
	})
	return nil
}

// watch opens a stream of what is for a process, and of nothing else.
func (b *backend) watch(ctx context.Context, p store.Process) (*mongo.ChangeStream, error) {
	mine := bson.A{
		object("$match", object("$or", bson.A{
			object("fullDocument.woke.p", processOf(p)), object("updateDescription.updatedFields.woke.p", processOf(p)),
		})),
		object("$project", object("documentKey", int32(1), "fullDocument.woke", int32(1), "updateDescription.updatedFields.woke", int32(1))),
	}
	locks := b.locks.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	return locks.Watch(mongo.NewSessionContext(ctx, nil), mine, options.ChangeStream().SetMaxAwaitTime(awaitFor))
}

// deliver delivers what a stream tells, until it breaks or the store is closed.
func (b *backend) deliver(stream *mongo.ChangeStream, p store.Process, sink func(record.Notification)) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stream.Close(ctx)
	}()
	for stream.Next(b.ctx) {
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
			continue // it is not of holdfast
		}
		for _, l := range append(e.Made.Woke, e.Change.To.Woke...) {
			record.ParseNotifications(l.Text.Data, func(n record.Notification) {
				if n.ID.Process() == p { //mutant:mongo-letters-of-others
					sink(n)
				}
			})
		}
	}
}
