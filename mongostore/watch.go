package mongostore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// awaitFor is how long the server waits for a change before it says that
	// there is none.
	awaitFor = 5 * time.Second
	// A stream that broke is opened anew after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
)

// The field woke has a line for each claim that the newest change of the
// document has granted, other than the caller's own: id, first token, size of
// the block. An upgrade has the token 0, and its fence. It is a field at the top
// and a string, because of a change some versions of the server tell the whole
// document, and others what is different.
var wakes = bson.A{
	object("$match", object("$or", bson.A{
		object("fullDocument.woke", object("$gt", "")),
		object("updateDescription.updatedFields.woke", object("$gt", "")),
	})),
	object("$project", object("documentKey", 1, "fullDocument.woke", 1, "updateDescription.updatedFields.woke", 1)),
}

// Watch implements [store.Watcher]: one change stream, until Close. An error
// matches store.ErrUnsupported on a standalone server, which has none.
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Hint)) error {
	stream, err := s.watch(ctx)
	if err != nil {
		return s.failed("watch for wake-ups", err)
	}
	s.tasks.Go(func() {
		pause := leastPause
		for {
			if stream != nil {
				pause = leastPause
				s.deliver(stream, p, sink)
			}
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(pause/2 + rand.N(pause)):
			}
			pause = min(2*pause, mostPause)
			if stream, err = s.watch(s.ctx); err != nil {
				stream = nil
				continue
			}
			sink(store.Hint{}) // some may have been missed
		} //mutant:mongo-nobody-told-after-break
	})
	return nil
}

func (s *Store) watch(ctx context.Context) (*mongo.ChangeStream, error) {
	locks := s.locks.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	return locks.Watch(mongo.NewSessionContext(ctx, nil), wakes, options.ChangeStream().SetMaxAwaitTime(awaitFor))
}

// deliver delivers what a stream tells, until it breaks or the store is closed.
func (s *Store) deliver(stream *mongo.ChangeStream, p store.Process, sink func(store.Hint)) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stream.Close(ctx)
	}()
	for stream.Next(s.ctx) {
		e := stream.Current
		name, _ := e.Lookup("documentKey", "_id").StringValueOK()
		woke, ok := e.Lookup("fullDocument", "woke").StringValueOK()
		if !ok {
			woke, _ = e.Lookup("updateDescription", "updatedFields", "woke").StringValueOK()
		}
		for line := range strings.Lines(woke) {
			if h, err := parseHint(name, line); err == nil && h.ID.Process() == p { //mutant:mongo-hints-others-delivered
				sink(h)
			}
		}
	}
}

func parseHint(name, line string) (h store.Hint, err error) {
	part := strings.Fields(line)
	if len(part) != 3 {
		return h, fmt.Errorf("%d parts", len(part))
	}
	h.Name = name
	if h.ID, err = store.ParseID(part[0]); err != nil {
		return h, err
	}
	if h.Token, err = strconv.ParseInt(part[1], 10, 64); err == nil && h.Token > 0 {
		h.N, err = strconv.Atoi(part[2])
	}
	return h, err
}
