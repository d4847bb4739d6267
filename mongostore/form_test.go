package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// monitored is a database on a client with the weakest concerns, which reports each command before it is sent.
func monitored(t *testing.T, uri string, started func(*event.CommandStartedEvent)) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.W1()).SetReadConcern(readconcern.Available()).
		SetReadPreference(readpref.Nearest()).SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { started(e) }}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client.Database(database)
}

// Whatever the client is set to.
func TestEveryWriteIsAcknowledgedByAMajorityAndEachReadIsSureOfIt(t *testing.T) {
	t.Parallel()
	for _, standalone := range []bool{false, true} {
		uri := mongosim.Start(t, mongosim.Options{Standalone: standalone}).URI()
		if !standalone {
			uri = serverURI(t)
		}
		var mu sync.Mutex
		writes, reads, close := 0, 0, 0
		want := "linearizable"
		if standalone {
			want = "local" // there is no other member
		}
		s := storeOn(t, monitored(t, uri, func(e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			switch e.CommandName {
			case "findAndModify":
				writes++
				var wc struct {
					W string
					J bool
				}
				if err := bson.UnmarshalExtJSON([]byte(e.Command.Lookup("writeConcern").String()), false, &wc); err != nil || wc.W != "majority" || !wc.J {
					t.Errorf("got a write with write concern %s", e.Command.Lookup("writeConcern"))
				}
			case "find":
				reads++
				id, level := e.Command.Lookup("filter", "_id"), e.Command.Lookup("readConcern", "level")
				if got, _ := level.StringValueOK(); got != want {
					t.Errorf("got a read of %v with read concern %q, want %q", id, got, want)
				}
				if _, data, ok := id.BinaryOK(); ok && data[0] == 's' {
					close++
				}
			}
		}), apart())
		t.Cleanup(func() { drop(s) })
		h := storetest.MustHold(t, s, mutex("n"))
		mustRenew(t, s, h)
		storetest.MustAsk(t, s, mutex("n"))
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		// The answer that a session does not exist is sure, too.
		if left := mustLeft(t, s.b, session.ID(newRev().Data)); left > 0 {
			t.Error(left)
		}
		mu.Lock()
		if writes < 6 || reads < 2 || close != 1 {
			t.Errorf("got %d writes, %d reads, %d of them of a session", writes, reads, close)
		}
		mu.Unlock()
	}
}

// put writes a document as a stranger could have written it.
func put(t *testing.T, s *Store, d bson.D) {
	t.Helper()
	if _, err := s.b.locks.Clone(options.Collection()).InsertOne(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// documentOf is the document of a name, whole.
func documentOf(t *testing.T, s *Store, name string) bson.Raw {
	t.Helper()
	raw, err := s.b.find(t.Context(), nameID(name))
	if err != nil {
		t.Fatal(err)
	}
	return append(bson.Raw(nil), raw...)
}

// A document that is not holdfast's, or is of a newer holdfast, stays as it is.
func TestAForeignDocumentIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := mongosim.Start(t, mongosim.Options{})
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetRetryWrites(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	s := storeOn(t, client.Database(database), nil)
	defer s.Close()
	tried(t, s.b)
	listed := 0
	for i, c := range []struct {
		d    bson.D
		want error
	}{
		{object("lockedAt", "host"), store.ErrCorrupt},
		{object("v", "2", "rev", newRev()), store.ErrCorrupt},
		{object("v", int32(2), "rev", "x", "data", "y"), store.ErrCorrupt},
		{object("v", int32(2), "rev", newRev(), "inbox", "z"), store.ErrCorrupt},
		{object("v", int64(3), "rev", newRev(), "data", "of another kind"), store.ErrUnsupported},
	} {
		name := fmt.Sprint("n", i)
		put(t, s, append(object("_id", nameID(name)), c.d...))
		was := documentOf(t, s, name)
		claim := mutex(name)
		h := store.Hold{Name: name, ID: claim.ID, Token: 1, TTL: time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, ask := s.Ask(ctx, claim)
		_, look := s.Poll(ctx, mutex(name))
		for what, err := range map[string]error{
			"ask": ask, "look": look, "break": s.BreakHold(ctx, store.Break{Name: name, ID: h.ID, Token: 1}),
		} {
			if !errors.Is(err, c.want) {
				t.Errorf("%v: %s: %v, want %v", c.d, what, err, c.want)
			}
		}
		cancel()
		if now := documentOf(t, s, name); string(now) != string(was) {
			t.Errorf("%v was changed to %v", was, now)
		}
	}
	put(t, s, object("_id", "a string", "v", int32(2), "rev", "x")) // it cannot be one of ours
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			listed++
		}
	}
	if listed != 3 {
		t.Errorf("got %d errors in the list", listed)
	}
}

// Whether one document was deleted, or all of them.
func TestADeletedDocumentIsALossAndTheNameIsFree(t *testing.T) {
	t.Parallel()
	server := mongosim.Start(t, mongosim.Options{})
	s := simStore(t, server)
	h, other := storetest.MustHold(t, s, mutex("n")), storetest.MustHold(t, s, mutex("m"))
	mustRenew(t, s, h, other)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetRetryWrites(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	locks := client.Database(database).Collection(DefaultCollection)
	for _, id := range append(idsOf(s), nameID("n"), nameID("m")) {
		if _, err := locks.DeleteOne(t.Context(), object("_id", id)); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range s.Renew(t.Context(), []store.Hold{h, other}) {
		if !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("hold %d of two: renewed with %v, want ErrLost", i, r.Err)
		}
	}
	if next := storetest.MustHold(t, simStore(t, server), mutex("n")); next.Token <= h.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, h.Token)
	}
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	if st := storetest.MustList(t, s, "n"); len(st.Entries) != 1 {
		t.Errorf("%+v", st)
	}
}

func idsOf(s *Store) (ids []bson.Binary) {
	for _, id := range s.Sessions() {
		ids = append(ids, sessionID(id))
	}
	return ids
}

func fieldsOf(t *testing.T, d bson.Raw) string {
	t.Helper()
	elements, err := d.Elements()
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for _, e := range elements {
		fields[e.Key()] = true
	}
	var all []string
	for _, f := range []string{"_id", "v", "rev", "name", "at", "data", "inbox", "woke", "ttl", "over", "calls", "seen", expires} {
		if fields[f] {
			all = append(all, f)
			delete(fields, f)
		}
	}
	if len(fields) > 0 {
		t.Errorf("got undocumented fields: %v", fields)
	}
	return strings.Join(all, " ")
}

// The collection contains what the package comment says.
func TestTheStoredFormIsWhatIsDocumented(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	h := storetest.MustHold(t, s, mutex("n"))
	mustRenew(t, s, h)
	held := documentOf(t, s, "n")
	if got, want := fieldsOf(t, held), "_id v rev name at data woke"; got != want || held.Lookup("name").StringValue() != "n" {
		t.Errorf("document of a name: got fields %s, want %s", got, want)
	}
	for _, id := range idsOf(s) {
		raw, err := s.b.find(t.Context(), id)
		if err != nil || raw == nil {
			t.Fatal(err)
		}
		if got, want := fieldsOf(t, raw), "_id v at ttl over "+expires; got != want {
			t.Errorf("document of a session: got fields %s, want %s", got, want)
		}
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	// A day after the release, and with its token.
	idle := documentOf(t, s, "n")
	if at, end := idle.Lookup("at").Time(), idle.Lookup(expires).Time(); end.Before(at.Add(store.TokenRetention)) || end.After(at.Add(store.TokenRetention+time.Minute)) {
		t.Errorf("written at %v, but deleted at %v", at, end)
	}
	if next := storetest.MustHold(t, s, mutex("n")); next.Token <= h.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, h.Token)
	}
	if again := documentOf(t, s, "n"); len(again.Lookup(expires).Value) > 0 {
		t.Errorf("the name is in use, but is deleted at %v", again.Lookup(expires))
	}
}

// A refused try writes nothing of the name. It does note that the session of the holder was read.
func TestARefusedTryWritesNothingOfTheName(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	storetest.MustHold(t, s, mutex("n"))
	was := documentOf(t, s, "n")
	c := mutex("n")
	c.Try = true
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted || a.Holding != 1 || a.Until <= 0 {
		t.Fatalf("got %+v, %v", a, err)
	}
	c.Limit, c.Weight = 3, 1
	if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrMismatch) {
		t.Fatal(err)
	}
	if now := documentOf(t, s, "n"); string(now) != string(was) {
		t.Errorf("%v was changed to %v", was, now)
	}
}

func TestTheIndexIsCreatedOnceWithoutDelayingLocks(t *testing.T) {
	t.Parallel()
	server := mongosim.Start(t, mongosim.Options{})
	server.Fault("createIndexes", mongosim.Fault{Before: true, Code: unauthorized, Name: "Unauthorized"})
	db := clientOf(t, server.URI()).Database(database)
	first, second := storeOn(t, db, nil), storeOn(t, db, nil)
	defer second.Close()
	defer first.Close()
	storetest.MustHold(t, first, mutex("n")) // its failure is no failure of the lock
	first.b.tasks.Wait()
	storetest.MustHold(t, second, mutex("m"))
	storetest.MustHold(t, second, mutex("o"))
	second.b.tasks.Wait()
	if n := server.Sent("createIndexes"); n != 2 {
		t.Errorf("createIndexes was sent %d times, want once by each store", n)
	}
	if all := server.Indexes(database + "." + DefaultCollection); len(all) != 1 {
		t.Errorf("got indexes %v, want one", all)
	}
}
