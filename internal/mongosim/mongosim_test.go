package mongosim

import (
	"bytes"
	"context"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a command as given, without a driver.
func ask(t *testing.T, s *Server, command bson.D) bson.D {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(message(opMsg, 7, 0, encode(command))); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	head := make([]byte, 4)
	for uint32(b.Len()) < 4 || uint32(b.Len()) < le.Uint32(b.Bytes()) {
		n, err := c.Read(head)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(head[:n])
	}
	if to := le.Uint32(b.Bytes()[8:]); to != 7 {
		t.Fatalf("got a reply to %d, want to 7", to)
	}
	return decode(b.Bytes()[21:])
}

// d is a document of keys and values in turn.
func d(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

type a = bson.A

const now = bson.DateTime(1_700_000_000_123)

// modify is a findAndModify of the document n.
func modify(update bson.D, with ...any) bson.D {
	return append(d("findAndModify", "c", "query", d("_id", "n"), "update", update, "new", true, "upsert", true), append(d(with...), d("$db", "db")...)...)
}

func set(pairs ...any) bson.D { return d("$set", d(pairs...)) }

func TestFindAndModifyAnswersAsTheManualSays(t *testing.T) {
	s := Start(t, Options{})
	for _, c := range []struct {
		name    string
		command bson.D
		last    bson.D
		value   any
		written int
	}{
		{"nothing there, nothing made", d("findAndModify", "c", "query", d("_id", "n"), "update", set("x", int32(1)), "new", true, "$db", "db"),
			d("n", int32(0), "updatedExisting", false), nil, 0},
		{"made, with what the filter says", modify(set("x", int32(1))), d("n", int32(1), "updatedExisting", false, "upserted", "n"), d("_id", "n", "x", int32(1)), 1},
		{"changed", modify(set("x", int64(1))), d("n", int32(1), "updatedExisting", true), d("_id", "n", "x", int64(1)), 2}, // a type is a change
		{"unchanged", modify(set("x", int64(1))), d("n", int32(1), "updatedExisting", true), d("_id", "n", "x", int64(1)), 2},
		{"projected", modify(set("y", int32(2)), "fields", d("y", int32(1))), d("n", int32(1), "updatedExisting", true), d("_id", "n", "y", int32(2)), 3},
	} {
		r := ask(t, s, c.command)
		if !reflect.DeepEqual(field(r, "lastErrorObject"), value(c.last)) || !reflect.DeepEqual(field(r, "value"), c.value) || field(r, "ok") != 1.0 {
			t.Errorf("%s: %v", c.name, r)
		}
		if s.Written() != c.written {
			t.Errorf("%s: got %d writes, want %d", c.name, s.Written(), c.written)
		}
	}
}

func TestAnErrorHasItsCodeAndChangesNothing(t *testing.T) {
	s := Start(t, Options{})
	ask(t, s, modify(set("x", "text")))
	for i, c := range []struct {
		want    int32
		command bson.D
	}{
		{14, modify(d("$inc", d("x", int64(1))))}, {66, modify(set("_id", "other"))}, {40, modify(d("$set", d("x", "y"), "$unset", d("x", "")))},
		{2, modify(d("$push", d("x", d("$each", a{int32(1)}))))}, {9, modify(d("$set", "x"))}, {2, find(d("x", d("$in", "y")))},
		{59, d("dropDatabase", int32(1), "$db", "db")}, {43, d("getMore", int64(9), "collection", "c", "$db", "db")},
		{11000, d("findAndModify", "c", "query", d("_id", "n", "x", "other"), "update", set("y", true), "new", true, "upsert", true, "$db", "db")},
	} {
		if r := ask(t, s, c.command); field(r, "code") != c.want || field(r, "ok") != 0.0 {
			t.Errorf("%d: got %v, want code %d", i, r, c.want)
		}
	}
	for what, command := range map[string]bson.D{
		"findAndModify with sort": modify(set("x", int32(1)), "sort", d("x", int32(1))), "findAndModify with let": modify(set("x", int32(1)), "let", d()),
		"findAndModify with txnNumber": modify(set("x", int32(1)), "txnNumber", int64(1)), "no operators": modify(d("x", int32(1))),
		"the operator $max": modify(d("$max", d("x", int32(1)))), "the path x.y": modify(set("x.y", int32(1))), "the condition $ne": find(d("x", d("$ne", "y"))),
		"a pipeline":       d("findAndModify", "c", "query", d(), "update", a{set("x", int32(1))}, "new", true, "$db", "db"),
		"no change stream": d("aggregate", "c", "pipeline", a{d("$match", d())}, "cursor", d(), "$db", "db"), "as it was": d("findAndModify", "c", "query", d(), "update", set("x", int32(1)), "$db", "db"),
	} {
		text, _ := field(ask(t, s, command), "errmsg").(string)
		if what == "a pipeline" {
			what = "no operators"
		}
		if !strings.Contains(text, "mongosim does not know") || !strings.Contains(text, what) {
			t.Errorf("%s: %s", what, text)
		}
	}
	if s.Written() != 1 {
		t.Errorf("got %d writes, want 1", s.Written())
	}
}

// find is a find of everything that a filter matches.
func find(filter bson.D, with ...any) bson.D {
	return append(d("find", "c", "filter", filter, "$db", "db"), d(with...)...)
}

func found(r bson.D) a {
	batch, _ := at(r, []string{"cursor", "firstBatch"}).(a)
	return batch
}

func TestEachOperatorDoesWhatTheManualSays(t *testing.T) {
	s := Start(t, Options{Clock: func() time.Time { return time.UnixMicro(1_700_000_000_123_999) }})
	one, two := d("k", "1"), d("k", "2")
	for _, c := range []struct {
		update bson.D
		want   bson.D
	}{
		{d("$set", d("x", int32(1), "y", "y"), "$currentDate", d("at", true)), d("_id", "n", "x", int32(1), "y", "y", "at", now)}, // cut to milliseconds
		{d("$unset", d("y", "", "no", "")), d("_id", "n", "x", int32(1), "at", now)},
		{d("$inc", d("x", int64(2), "z", int64(1))), d("_id", "n", "x", int64(3), "at", now, "z", int64(1))},
		{d("$unset", d("x", "", "at", "", "z", "")), d("_id", "n")},
		{d("$pull", d("l", d("k", "1"))), d("_id", "n")},
		{d("$push", d("l", d("$each", a{one, two}))), d("_id", "n", "l", a{one, two})},
		{d("$push", d("l", d("$each", a{one, one}))), d("_id", "n", "l", a{one, two, one, one})}, // appended, and even twice
		{d("$pull", d("l", d("k", d("$in", a{"1", "3"})))), d("_id", "n", "l", a{two})},          // each of them
	} {
		if r := ask(t, s, modify(c.update)); !reflect.DeepEqual(field(r, "value"), value(c.want)) {
			t.Errorf("%v: got %v, want %v", c.update, r, c.want)
		}
	}
}

func TestAFilterMatchesWhatTheManualSays(t *testing.T) {
	s := Start(t, Options{})
	ask(t, s, modify(set("x", int32(5), "s", "5", "b", bson.Binary{Data: []byte{1, 2}}, "at", now, "l", a{d("k", "1"), d("k", "2")})))
	for _, c := range []struct {
		filter  bson.D
		matches bool
	}{
		{d("x", int64(5)), true}, {d("x", "5"), false}, {d("x", int32(5), "s", "6"), false}, {d("no", "5"), false},
		{d("b", bson.Binary{Data: []byte{1, 2}}), true}, {d("b", bson.Binary{Data: []byte{1}}), false}, {d("b", bson.Binary{Subtype: 5, Data: []byte{1, 2}}), false},
		{d("x", d("$in", a{int32(1), int32(5)})), true}, {d("x", d("$in", a{})), false},
		{d("l.k", "2"), true}, {d("l.k", d("$all", a{"2", "1"})), true}, {d("l.k", d("$all", a{"1", "3"})), false}, {d("l.k", d("$all", a{})), false},
		{d("x", d("$gt", int32(4))), true}, {d("x", d("$gt", int32(5))), false}, {d("s", d("$gt", int32(4))), false}, // only values of one type compare
		{d("at", d("$lt", now+1)), true}, {d("at", d("$lt", now)), false}, {d("no", d("$lt", now)), false},
		{d("x", d("$exists", true)), true}, {d("no", d("$exists", true)), false}, {d("no", d("$exists", false)), true}, {d("x", d("$exists", false)), false},
		{d("$or", a{d("x", int32(1)), d("s", "5")}), true}, {d("$or", a{d("x", int32(1)), d("s", "1")}), false},
	} {
		if r := ask(t, s, find(c.filter)); (len(found(r)) == 1) != c.matches || field(r, "ok") != 1.0 {
			t.Errorf("%v: got %v, want matched: %v", c.filter, r, c.matches)
		}
	}
}

// An upsert makes the document that its filter describes, or finds another.
func TestAnUpsertIsMadeOnce(t *testing.T) {
	s := Start(t, Options{})
	upsert := func(x int32) bson.D {
		return ask(t, s, d("findAndModify", "c", "query", d("_id", "n", "x", x), "update", d("$set", d("y", x)), "new", true, "upsert", true, "$db", "db"))
	}
	if r := upsert(1); !reflect.DeepEqual(field(r, "value"), value(d("_id", "n", "x", int32(1), "y", int32(1)))) {
		t.Error(r)
	}
	if r := upsert(1); !reflect.DeepEqual(at(r, []string{"lastErrorObject", "updatedExisting"}), true) {
		t.Error(r)
	}
	if r := upsert(2); field(r, "code") != int32(11000) {
		t.Error(r)
	}
	if s.Written() != 1 {
		t.Errorf("got %d writes, want 1", s.Written())
	}
}

func TestALinearizableReadNeedsAReplicaSet(t *testing.T) {
	for standalone, want := range map[bool]any{false: 1.0, true: 0.0} {
		if r := ask(t, Start(t, Options{Standalone: standalone}), find(d(), "readConcern", d("level", "linearizable"))); field(r, "ok") != want {
			t.Errorf("standalone %v: got %v", standalone, r)
		}
	}
}

func TestATTLIndexDeletesExpiredDocuments(t *testing.T) {
	clock := time.UnixMilli(int64(now))
	s := Start(t, Options{Clock: func() time.Time { return clock }})
	for id, at := range map[string]any{"over": now, "stays": now + 1, "none": "text"} {
		ask(t, s, d("findAndModify", "c", "query", d("_id", id), "update", set("end", at), "new", true, "upsert", true, "$db", "db"))
	}
	if r := ask(t, s, find(d())); len(found(r)) != 3 {
		t.Error(r)
	}
	ask(t, s, d("createIndexes", "c", "indexes", a{d("key", d("end", int32(1)), "name", "i", "expireAfterSeconds", int32(0))}, "$db", "db"))
	if r := ask(t, s, find(d("_id", "over"))); len(found(r)) != 0 {
		t.Error(r)
	}
	if r := ask(t, s, find(d())); len(found(r)) != 2 {
		t.Error(r)
	}
	clock = clock.Add(time.Millisecond)
	if r := ask(t, s, find(d())); len(found(r)) != 1 {
		t.Error(r)
	}
}

// Faults and gaps that were seen in relatives of MongoDB.
func TestAnEngineHasItsFault(t *testing.T) {
	other := d("findAndModify", "c", "query", d("_id", "n", "x", "other"), "update", set("y", true), "new", true, "upsert", true, "$db", "db")
	for engine, c := range map[Engine]struct {
		command bson.D
		there   bson.D // the document after the command
		code    any
	}{
		UpsertsReplace:  {other, d("_id", "n", "x", "other", "y", true), missing{}},
		UpsertsBothWin:  {other, d("_id", "n", "x", "x"), missing{}},
		FiltersByID:     {other, d("_id", "n", "x", "x", "y", true), missing{}},
		NoDates:         {modify(d("$currentDate", d("at", true))), d("_id", "n", "x", "x"), int32(9)},
		NoChangeStreams: {d("aggregate", "c", "pipeline", a{d("$changeStream", d())}, "cursor", d(), "$db", "db"), d("_id", "n", "x", "x"), int32(115)},
	} {
		s := Start(t, Options{Engine: engine})
		ask(t, s, modify(set("x", "x")))
		if r := ask(t, s, c.command); field(r, "code") != c.code {
			t.Errorf("%d: got %v, want %v", engine, r, c.code)
		}
		if r := ask(t, s, find(d())); !reflect.DeepEqual(found(r), a{c.there}) {
			t.Errorf("%d: got %v, want %v", engine, r, c.there)
		}
	}
	s := Start(t, Options{Engine: PushesReplace})
	for _, x := range []string{"1", "2"} {
		ask(t, s, modify(d("$push", d("l", d("$each", a{x})))))
	}
	if r := ask(t, s, find(d())); !reflect.DeepEqual(at(r, []string{"cursor", "firstBatch", "l"}), a{a{"2"}}) {
		t.Error(r)
	}
}

// A stream reports only the fields that a change has changed.
func TestAChangeStreamReportsWhatChanges(t *testing.T) {
	s := Start(t, Options{})
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	c := client.Database("db").Collection("c")
	stream, err := c.Watch(t.Context(), a{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(context.Background())
	for _, pairs := range [][]any{{"x", int32(1)}, {"x", int32(2)}, {"x", int32(2)} /* no change */, {"y", int32(3)}} {
		ask(t, s, modify(set(pairs...)))
	}
	for _, want := range []string{"insert 1", "update 2", "update "} {
		if !stream.Next(t.Context()) {
			t.Fatal(stream.Err())
		}
		e := decode(stream.Current)
		x := at(e, []string{"fullDocument", "x"})
		if isMissing(x) {
			x = at(e, []string{"updateDescription", "updatedFields", "x"})
		}
		have := field(e, "operationType").(string) + " "
		if n, is := number(x); is {
			have += string(rune('0' + n))
		}
		if have != want {
			t.Errorf("got %s, want %s: %v", have, want, e)
		}
	}
	alone := Start(t, Options{Standalone: true})
	if r := ask(t, alone, d("aggregate", "c", "pipeline", a{d("$changeStream", d())}, "cursor", d(), "$db", "db")); field(r, "code") != int32(40573) {
		t.Error(r)
	}
}

// A stream that is too far behind cannot continue.
func TestAStreamThatIsTooFarBehindIsLost(t *testing.T) {
	s := Start(t, Options{})
	opened := ask(t, s, d("aggregate", "c", "pipeline", a{d("$changeStream", d())}, "cursor", d(), "$db", "db"))
	id := field(field(opened, "cursor").(bson.D), "id")
	s.mu.Lock()
	for range mostEvents + 1 {
		s.changed("db.c", nil, d("_id", "n"))
	}
	s.mu.Unlock()
	if r := ask(t, s, d("getMore", id, "collection", "c", "maxTimeMS", int32(1), "$db", "db")); field(r, "code") != int32(286) {
		t.Errorf("got %v, want code 286", r)
	}
}

// A delayed command runs at Deliver, and a repeated command runs twice.
func TestACommandCanBeDelayedOrRepeated(t *testing.T) {
	s := Start(t, Options{})
	ask(t, s, modify(d("$inc", d("x", int64(1)))))
	s.Fault("findAndModify", Fault{Again: true})
	if r := ask(t, s, modify(d("$inc", d("x", int64(1))))); at(r, []string{"value", "x"}) != int64(2) {
		t.Error(r)
	}
	s.Fault("$inc", Fault{Late: true}) // this does not delay other operators
	ask(t, s, modify(set("y", true)))
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	c.Write(message(opMsg, 7, 0, encode(modify(d("$inc", d("x", int64(1)))))))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("got %d bytes of a reply, want none", n)
	}
	for _, want := range []int64{2, 4, 4} {
		if r := ask(t, s, find(d())); at(found(r)[0], []string{"x"}) != want {
			t.Errorf("got %v, want %d", r, want)
		}
		s.Deliver()
	}
}
