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
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

const retryable = "RetryableWriteError"

// newSim returns a Store on a stand-in of its own, and the stand-in.
func newSim(t *testing.T, o mongosim.Options) (*Store, *mongosim.Server) {
	t.Helper()
	server := mongosim.Start(t, o)
	s := storeOn(t, clientOf(t, server.URI()).Database(database), nil)
	t.Cleanup(func() { s.Close() })
	return s, server
}

func mustRenew(t *testing.T, s *Store, holds ...store.Hold) {
	t.Helper()
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Fatalf("renew %q: %v", holds[i].Name, r.Err)
		}
	}
}

// put makes a document as somebody else may have.
func put(t *testing.T, s *Store, d bson.D) {
	t.Helper()
	_, err := s.locks.FindOneAndUpdate(t.Context(), object("_id", d[0].Value), bson.A{object("$replaceWith", literal(d))},
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Raw()
	if err != nil {
		t.Fatal(err)
	}
}

// stored is the document of a name, whole.
func stored(t *testing.T, s *Store, name string) bson.Raw {
	t.Helper()
	cursor, err := s.locks.Aggregate(t.Context(), bson.A{object("$match", object("_id", name))})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close(t.Context())
	if !cursor.Next(t.Context()) {
		return nil
	}
	return append(bson.Raw{}, cursor.Current...)
}

func isUnclear(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
		t.Fatalf("%v, want an unclear one that matches ErrUnavailable", err)
	}
}

// The write was done, its reply was lost, and the driver asks again: the server
// answers from what it has kept.
func TestALostReplyOfAReplicaSetIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	server.Fault("findAndModify", mongosim.Fault{Cut: true})
	h := storetest.MustHold(t, s, mutex("n"))
	if n := server.Written(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	server.Fault("findAndModify", mongosim.Fault{Cut: true})
	mustRenew(t, s, h)
	server.Fault("findAndModify", mongosim.Fault{Cut: true})
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// A refusal changes nothing, so a server keeps no answer of it, and comes to it
// again.
func TestALostRefusalIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	storetest.MustHold(t, s, mutex("n"))
	c := mutex("n")
	c.Try = true
	server.Fault("findAndModify", mongosim.Fault{Cut: true})
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted || a.Holding != 1 || a.Until <= 0 {
		t.Errorf("%+v, %v, want refused by one", a, err)
	}
}

// A standalone keeps no answers.
func TestALostReplyOfAStandaloneIsUnclearAndRepeatedByItsID(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{Standalone: true})
	c := mutex("n")
	server.Fault("findAndModify", mongosim.Fault{Cut: true})
	_, err := s.Ask(t.Context(), c)
	isUnclear(t, err)
	h := storetest.MustHold(t, s, c)
	if st := storetest.MustList(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].Token != h.Token {
		t.Errorf("%+v, want one entry with token %d", st, h.Token)
	}
}

func TestWhatWasNotDoneIsDoneByTheNewPrimary(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	server.Fault("findAndModify", mongosim.Fault{Before: true, Code: 10107, Name: "NotWritablePrimary", Labels: []string{retryable}})
	storetest.MustHold(t, s, mutex("n"))
	server.Fault("findAndModify", mongosim.Fault{Before: true, Cut: true})
	storetest.MustHold(t, s, mutex("m"))
}

// The write is there, and nobody knows whether it stays.
func TestAWriteConcernErrorIsUnclear(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	late := mongosim.Fault{Code: 64, Name: "WriteConcernFailed"}
	c := mutex("n")
	server.Fault("findAndModify", late)
	_, err := s.Ask(t.Context(), c)
	isUnclear(t, err)
	h := storetest.MustHold(t, s, c)
	server.Fault("findAndModify", late)
	isUnclear(t, s.Renew(t.Context(), []store.Hold{h})[0].Err)
	mustRenew(t, s, h)
	server.Fault("findAndModify", late)
	isUnclear(t, s.Release(t.Context(), h))
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("released again: %v, want ErrLost", err)
	}
}

func TestTwoFirstClaimsThatMeetAreRepeated(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	twice := mongosim.Fault{Before: true, Code: 11000, Name: "DuplicateKey"}
	for range attempts - 1 {
		server.Fault("findAndModify", twice)
	}
	storetest.MustHold(t, s, mutex("n"))
	for range attempts {
		server.Fault("findAndModify", twice)
	}
	_, err := s.Ask(t.Context(), mutex("m"))
	isUnclear(t, err)
}

func TestErrorsOfTheServerAreTold(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	for code, want := range map[int32]error{
		unauthorized: store.ErrDenied, authenticationFailed: store.ErrDenied, unknownStage: store.ErrUnsupported, invalidOperator: store.ErrUnsupported,
		tooLarge: store.ErrUnavailable, 11602: store.ErrUnavailable,
	} {
		server.Fault("findAndModify", mongosim.Fault{Before: true, Code: code, Name: "x"})
		if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", code, err, want)
		}
	}
	if server.Written() != 0 {
		t.Error("something was written")
	}
}

func TestManyRenewalsAreTwoRoundTrips(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	var holds []store.Hold
	for i := range 100 {
		holds = append(holds, storetest.MustHold(t, s, mutex(fmt.Sprint("n", i))))
	}
	one, two, three := server.Sent("findAndModify"), server.Sent("update"), server.Sent("aggregate")
	mustRenew(t, s, holds...)
	if one, two, three = server.Sent("findAndModify")-one, server.Sent("update")-two, server.Sent("aggregate")-three; one != 0 || two != 1 || three != 1 {
		t.Errorf("%d findAndModify, %d update, %d aggregate", one, two, three)
	}
	// Of one that is lost the others hear nothing.
	if err := s.BreakHold(t.Context(), store.Break{Name: "n7", ID: holds[7].ID, Token: holds[7].Token, Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.Renew(t.Context(), holds) {
		var lost *store.LostError
		if i == 7 && (!errors.As(r.Err, &lost) || lost.Reason != "why") || i != 7 && (r.Err != nil || r.Weight != store.Full || r.Want != store.Full) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	holds = append(holds[:7], holds[8:]...)
	// A bulk that fails is done one by one.
	for _, f := range []mongosim.Fault{{Before: true, Code: 10107, Name: "NotWritablePrimary"}, {Code: 64, Name: "WriteConcernFailed"}} {
		server.Fault("update", f)
		mustRenew(t, s, holds...)
	}
}

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	storetest.MustHold(t, s, mutex("n"))
	was := server.Written()
	c := mutex("n")
	c.Try = true
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	c.Limit, c.Weight = 3, 1
	if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrMismatch) {
		t.Fatal(err)
	}
	if n := server.Written() - was; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// It is not known of every version that a projection knows the time.
func TestWhereAReplyHasNoTimeARefusalIsReadOnceMore(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{Timeless: true})
	h := storetest.MustHold(t, s, mutex("n"))
	mustRenew(t, s, h)
	c := mutex("n")
	c.Try = true
	reads := server.Sent("aggregate")
	if a, err := s.Ask(t.Context(), c); err != nil || a.Granted || a.Until <= 0 || a.Until > time.Minute {
		t.Errorf("%+v, %v, want refused for a minute at most", a, err)
	}
	if n := server.Sent("aggregate") - reads; n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("released again: %v", err)
	}
}

// Whether it comes to that before it writes or behind it, each operation is done
// once.
func TestWhereTheFirstReplyHasNoTimeTheOperationIsDoneOnce(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	server.Fault("findAndModify", mongosim.Fault{Before: true, Code: noVariable, Name: "Location51144"})
	storetest.MustHold(t, s, mutex("n"))
	if n := server.Written(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	s, _ = newSim(t, mongosim.Options{Timeless: true})
	h := storetest.MustHold(t, s, mutex("n"))
	s.timeless.Store(false)
	if err := s.Release(t.Context(), h); err != nil {
		t.Errorf("release: %v", err)
	}
	if st := storetest.MustList(t, s, "n"); len(st.Entries) != 0 {
		t.Errorf("released, and there is %+v", st)
	}
	s.timeless.Store(false)
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("released again: %v, want ErrLost", err)
	}
}

// Somebody else's document, and that of a newer holdfast, stay as they are.
func TestAForeignDocumentIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i, c := range []struct {
		d    bson.D
		want error
	}{
		{object("_id", "", "lockedAt", "host"), store.ErrCorrupt},
		{object("_id", "", "v", "1"), store.ErrCorrupt},
		{object("_id", "", "entries", "x", "t", bson.A{1}, "fencingToken", "y", "limit", bson.D{}), store.ErrCorrupt},
		{object("_id", "", "entries", bson.A{object("expires", "z", "granted", true)}), store.ErrCorrupt},
		{object("_id", "", "v", int64(2), "entries", bson.A{}), store.ErrUnsupported},
	} {
		name := fmt.Sprint("n", i)
		c.d[0].Value = name
		put(t, s, c.d)
		was := stored(t, s, name)
		claim := mutex(name)
		h := store.Hold{Name: name, ID: claim.ID, Token: 1, TTL: time.Minute}
		_, ask := s.Ask(t.Context(), claim)
		_, look := s.Look(t.Context(), claim)
		_, change := s.Change(t.Context(), h, 1, store.Full)
		for what, err := range map[string]error{
			"ask": ask, "look": look, "change": change, "release": s.Release(t.Context(), h), "renew": s.Renew(t.Context(), []store.Hold{h})[0].Err,
			"break": s.BreakHold(t.Context(), store.Break{Name: name, ID: h.ID, Token: 1}),
		} {
			if !errors.Is(err, c.want) {
				t.Errorf("%v: %s: %v, want %v", c.d, what, err, c.want)
			}
		}
		if now := stored(t, s, name); string(now) != string(was) {
			t.Errorf("%v has become %v", was, now)
		}
	}
	n := 0
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			n++
		}
	}
	if n != 4 { // one has no entries
		t.Errorf("the list has %d errors", n)
	}
}

// Whether somebody has deleted it, or all of them: here the store looks where
// there are none.
func TestADeletedDocumentIsALossAndTheNameIsFree(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	h, other := storetest.MustHold(t, s, mutex("n")), storetest.MustHold(t, s, mutex("m"))
	was := s.locks
	s.tasks.Wait() // the index
	t.Cleanup(func() { was.Drop(context.Background()) })
	s.locks = newStore(t).locks
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewed: %v, want ErrLost", err)
	}
	for i, r := range s.Renew(t.Context(), []store.Hold{h, other}) {
		if !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("%d of two renewed: %v, want ErrLost", i, r.Err)
		}
	}
	if next := storetest.MustHold(t, s, mutex("n")); next.Token <= h.Token {
		t.Errorf("token %d after %d", next.Token, h.Token)
	}
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("released: %v, want ErrLost", err)
	}
	if st := storetest.MustList(t, s, "n"); len(st.Entries) != 1 {
		t.Errorf("%+v", st)
	}
}

// Whoever looks into the collection finds what the package comment says.
func TestTheStoredFormIsWhatIsDocumented(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	h := storetest.MustHold(t, s, mutex("n"))
	time.Sleep(2 * time.Millisecond) // what comes next has another instant
	storetest.MustAsk(t, s, mutex("n"))
	first := stored(t, s, "n")
	var fields []string
	elements, err := first.Elements()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements {
		fields = append(fields, e.Key())
	}
	if got, want := fmt.Sprint(fields), "[_id v limit fencingToken acquiredAt expiresAt at entries woke op]"; got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
	entries, err := first.Lookup("entries").Array().Values()
	if err != nil || len(entries) != 2 {
		t.Fatalf("entries %v, %v", entries, err)
	}
	held := entries[0].Document()
	if v, token := first.Lookup("v").Int64(), first.Lookup("fencingToken").Int64(); v != form || token != h.Token || held.Lookup("token").Int64() != h.Token {
		t.Errorf("v %d, fencingToken %d, want %d and %d: %v", v, token, form, h.Token, first)
	}
	// A day after the last of the entries is over, the one with the TTL of a minute.
	acquired, ends, over := first.Lookup("acquiredAt").Time(), first.Lookup("expiresAt").Time(), held.Lookup("expires").Time()
	if over.Sub(acquired) != h.TTL || ends.Sub(over) != store.TokenRetention || !held.Lookup("since").Time().Equal(acquired) {
		t.Errorf("acquired %v, over %v, deleted at %v", acquired, over, ends)
	}
	// A renewal draws no token, and so acquires nothing.
	mustRenew(t, s, h)
	if then := stored(t, s, "n"); !then.Lookup("acquiredAt").Time().Equal(acquired) {
		t.Errorf("acquiredAt has become %v", then.Lookup("acquiredAt"))
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if then := stored(t, s, "n"); then.Lookup("fencingToken").Int64() <= h.Token || then.Lookup("acquiredAt").Time().Before(acquired) {
		t.Errorf("the grant of the next has left %v", then)
	}
}

// The document stays, for a day and with its token, and the server is told to
// delete it then.
func TestAReleaseKeepsTheTokenForADay(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before := time.Now().Add(-time.Minute) // the server's clock may be another
	h := storetest.MustHold(t, s, mutex("n"))
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	d := stored(t, s, "n")
	if end, ok := d.Lookup("expiresAt").TimeOK(); !ok || end.Before(before.Add(store.TokenRetention)) {
		t.Errorf("expiresAt is %v", d.Lookup("expiresAt"))
	}
	if token := d.Lookup("fencingToken").Int64(); token != h.Token {
		t.Errorf("token %d is kept, want %d", token, h.Token)
	}
	if next := storetest.MustHold(t, s, mutex("n")); next.Token <= h.Token {
		t.Errorf("token %d after %d", next.Token, h.Token)
	}
}

func TestTheIndexIsMadeOnceAndBesideTheLocking(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	server.Fault("createIndexes", mongosim.Fault{Before: true, Code: unauthorized, Name: "Unauthorized"})
	storetest.MustHold(t, s, mutex("n")) // whose failure is no failure of the lock
	s.tasks.Wait()
	second := storeOn(t, s.locks.Database().Client().Database(database), nil)
	defer second.Close()
	storetest.MustHold(t, second, mutex("m"))
	storetest.MustHold(t, second, mutex("o"))
	second.tasks.Wait()
	if n := server.Sent("createIndexes"); n != 2 {
		t.Errorf("sent %d times, want once by each store", n)
	}
	all := server.Indexes("holdfast_test." + DefaultCollection)
	if len(all) != 1 || fmt.Sprint(all[0]) != fmt.Sprint(object("key", object("expiresAt", 1), "expireAfterSeconds", 0, "name", indexName)) {
		t.Errorf("%v", all)
	}
}

// Whatever the client would do.
func TestEveryWriteIsAcknowledgedByAMajorityAndItsJournals(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	client, err := mongo.Connect(options.Client().ApplyURI(serverURI(t)).SetWriteConcern(writeconcern.W1()).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "findAndModify" || e.CommandName == "update" {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, e.CommandName+" "+e.Command.Lookup("writeConcern").String())
			}
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	s := storeOn(t, client.Database(database), apart())
	t.Cleanup(func() { s.Close() })
	h, other := storetest.MustHold(t, s, mutex("n")), storetest.MustHold(t, s, mutex("m"))
	mustRenew(t, s, h, other)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != 4 {
		t.Errorf("%d writes, want 4", len(sent))
	}
	for _, w := range sent {
		var wc struct {
			W string
			J bool
		}
		name, concern, _ := strings.Cut(w, " ")
		if err := bson.UnmarshalExtJSON([]byte(concern), false, &wc); err != nil || wc.W != "majority" || !wc.J {
			t.Errorf("%s with write concern %s", name, concern)
		}
	}
}

// Each operation is a write that is no retryable one, or a read.
func TestAStandaloneWakesNobodyAndLocks(t *testing.T) {
	t.Parallel()
	s, _ := newSim(t, mongosim.Options{Standalone: true})
	if err := s.Watch(t.Context(), me, func(store.Hint) {}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("watch: %v, want ErrUnsupported", err)
	}
	h, other := storetest.MustHold(t, s, mutex("n")), storetest.MustHold(t, s, mutex("m"))
	mustRenew(t, s, h, other)
	mustRenew(t, s, h)
	waits := mutex("n")
	if storetest.MustAsk(t, s, waits).Granted {
		t.Error("two hold it")
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Look(t.Context(), waits); err != nil || !a.Granted || a.Token <= h.Token {
		t.Errorf("the one who waits sees %+v, %v, after token %d", a, err, h.Token)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: waits.ID}); err != nil {
		t.Error(err)
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "m", ID: other.ID, Token: other.Token, Now: true}); err != nil {
		t.Error(err)
	}
	read := mutex("n")
	read.Weight = store.Upgradeable
	up := storetest.MustHold(t, s, read)
	if a, err := s.Change(t.Context(), up, 1, store.Full); err != nil || !a.Granted || a.Fence <= up.Token {
		t.Errorf("upgraded: %+v, %v", a, err)
	}
	for name, n := range map[string]int{"n": 1, "m": 0} {
		if st := storetest.MustList(t, s, name); len(st.Entries) != n {
			t.Errorf("%q has %+v, want %d entries", name, st, n)
		}
	}
}

// A stream that ends is opened again, and then all look.
func TestABrokenStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	hints := make(chan store.Hint, 10)
	if err := s.Watch(t.Context(), me, func(h store.Hint) { hints <- h }); err != nil {
		t.Fatal(err)
	}
	server.Fault("getMore", mongosim.Fault{Before: true, Code: 280, Name: "ChangeStreamFatalError"})
	server.Fault("aggregate", mongosim.Fault{Before: true, Code: 91, Name: "ShutdownInProgress"})
	h, waits := storetest.MustHold(t, s, mutex("other")), mutex("other") // an event ends the getMore under way
	if _, err := s.Ask(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	zero := false
	for !zero {
		select {
		case h := <-hints:
			zero = h == store.Hint{}
		case <-time.After(patience):
			t.Fatal("nobody was told to look")
		}
	}
}
