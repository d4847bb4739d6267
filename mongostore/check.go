package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/store"
)

// leastWire is the version of the protocol of MongoDB 4.4.
const leastWire = 9

// Check implements [store.Checker]. It takes two round trips.
func (s *Store) Check(ctx context.Context) []store.Finding {
	ctx = mongo.NewSessionContext(ctx, nil)
	var hello struct {
		Wire    int           `bson:"maxWireVersion"`
		Set     string        `bson:"setName"`
		Message string        `bson:"msg"`
		Time    bson.DateTime `bson:"localTime"`
	}
	sent := time.Now()
	if err := s.locks.Database().RunCommand(ctx, object("hello", 1)).Decode(&hello); err != nil {
		return []store.Finding{{About: "server", Err: s.failed("ask who it is", err)}}
	}
	took := time.Since(sent)
	all := []store.Finding{s.checkServer(hello.Wire, hello.Set, hello.Message), checkClock(hello.Time.Time().Sub(sent.Add(took/2)), took/2)}
	return append(all, s.checkCollection(ctx))
}

// checkCollection tells whether this user may read the collection, and whether
// that tells names apart by their bytes. Every collation has these two for the
// same; a $facet makes a document where there may be none.
func (s *Store) checkCollection(ctx context.Context) store.Finding {
	f := store.Finding{About: "collection", Found: s.locks.Name() + ": this user may read it"}
	nothing := object("$match", object("_id", ""))
	cursor, err := s.locks.Aggregate(ctx, bson.A{nothing, object("$facet", object("none", bson.A{nothing})), set("same", eq("\u00e9", "e\u0301"))})
	if err == nil {
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			if same, _ := cursor.Current.Lookup("same").BooleanOK(); same {
				f.Err = fmt.Errorf("%w: the collection %s has a collation, for which different names are the same: make it anew, without one", store.ErrUnsupported, s.locks.Name())
			}
		}
		err = cursor.Err()
	}
	if err != nil {
		f.Err = s.failed("look at the collection", err)
	}
	return f
}

func (s *Store) checkServer(wire int, set, message string) store.Finding {
	f := store.Finding{About: "server"}
	switch {
	case wire < leastWire:
		f.Err = fmt.Errorf("%w: %s speaks version %d of the protocol, and locks need %d: use MongoDB 4.4 or newer", store.ErrUnsupported, s.address, wire, leastWire)
	case message == "isdbgrid":
		f.Found = "a sharded cluster: each mongos judges by its own clock"
	case set != "":
		f.Found = "replica set " + set
	default:
		f.Found, f.Warning = "a standalone: waiters look now and then, and what its disk loses is lost; make it a replica set, of one member if need be", true
	}
	return f
}

// checkClock tells how far the server's clock is from this host's, which was
// read to within half a round trip, and the server's to a millisecond.
func checkClock(ahead, half time.Duration) store.Finding {
	ahead, within := ahead.Round(time.Millisecond), half.Round(time.Millisecond)+time.Millisecond
	found := fmt.Sprintf("%v ahead of this host's, to within %v", ahead, within)
	switch {
	case ahead.Abs() <= within:
		found = fmt.Sprintf("as this host's, to within %v", within)
	case ahead < 0:
		found = fmt.Sprintf("%v behind this host's, to within %v", -ahead, within)
	}
	return store.Finding{About: "clock", Found: found}
}
