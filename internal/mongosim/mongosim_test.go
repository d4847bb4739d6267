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

// ask sends a command as it is, without a driver.
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
		t.Fatalf("a reply to %d", to)
	}
	return decode(b.Bytes()[21:])
}

// modify is a findAndModify of the document n.
func modify(pipeline a, with ...any) bson.D {
	return append(d("findAndModify", "c", "query", d("_id", "n"), "update", pipeline, "new", true, "upsert", true), append(d(with...), d("$db", "db")...)...)
}

func set(pairs ...any) a { return a{d("$set", d(pairs...))} }

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
			t.Errorf("%s: %d writes, want %d", c.name, s.Written(), c.written)
		}
	}
}

func TestAnErrorHasItsCodeAndChangesNothing(t *testing.T) {
	s := Start(t, Options{})
	ask(t, s, modify(set("x", "text")))
	for want, command := range map[int32]bson.D{
		16554: modify(set("x", d("$add", a{"$x", int32(1)}))), 66: modify(set("_id", "other")), 40228: modify(a{d("$replaceWith", "$no")}),
		59: d("dropDatabase", int32(1), "$db", "db"), 43: d("getMore", int64(9), "collection", "c", "$db", "db"),
	} {
		if r := ask(t, s, command); field(r, "code") != want || field(r, "ok") != 0.0 {
			t.Errorf("%v, want code %d", r, want)
		}
	}
	for what, command := range map[string]bson.D{
		"findAndModify with sort": modify(set("x", int32(1)), "sort", d("x", int32(1))), "findAndModify with let": modify(set("x", int32(1)), "let", d()),
		"stage $unset": modify(a{d("$unset", "x")}), "no pipeline": d("findAndModify", "c", "query", d(), "update", d("$set", d("x", int32(1))), "new", true, "$db", "db"),
	} {
		if r := ask(t, s, command); !strings.Contains(field(r, "errmsg").(string), "mongosim does not know") || !strings.Contains(field(r, "errmsg").(string), what) {
			t.Errorf("%s: %v", what, r)
		}
	}
	if s.Written() != 1 {
		t.Errorf("%d writes", s.Written())
	}
}

// One that changed something is answered from what is kept, whole; one that
// changed nothing is done anew.
func TestARepeatedWriteIsDoneOnce(t *testing.T) {
	s := Start(t, Options{})
	count := func(n int64) bson.D {
		return ask(t, s, modify(set("x", d("$add", a{d("$ifNull", a{"$x", int32(0)}), int32(1)})), "fields", d("no", int32(1)),
			"lsid", d("id", bson.Binary{Subtype: 4, Data: make([]byte, 16)}), "txnNumber", n))
	}
	if first := count(1); !reflect.DeepEqual(field(first, "value"), value(d("_id", "n"))) {
		t.Error(first)
	}
	if again := count(1); !reflect.DeepEqual(field(again, "value"), value(d("_id", "n", "x", int32(1)))) {
		t.Error(again)
	}
	count(2)
	if s.Written() != 2 {
		t.Errorf("%d writes", s.Written())
	}
	alone := Start(t, Options{Standalone: true})
	if r := ask(t, alone, modify(set("x", int32(1)), "txnNumber", int64(1))); field(r, "code") != int32(20) {
		t.Error(r)
	}
}

// Of a change 4.4 tells the document, and 5.0 what is different.
func TestAChangeStreamTellsWhatChanges(t *testing.T) {
	for deltas, want := range map[bool][]string{false: {"insert 1", "replace 2", "replace 2"}, true: {"insert 1", "update 2", "update "}} {
		s := Start(t, Options{Deltas: deltas})
		client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Disconnect(context.Background()) })
		c := client.Database("db").Collection("c")
		change := func(pairs ...any) {
			if _, err := c.FindOneAndUpdate(t.Context(), d("_id", "n"), set(pairs...), options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Raw(); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := c.Watch(t.Context(), a{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close(context.Background())
		change("x", int32(1))
		change("x", int32(2))
		change("x", int32(2)) // no change
		change("y", int32(3))
		for _, w := range want {
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
			if have != w {
				t.Errorf("%s, want %s: %v", have, w, e)
			}
		}
	}
	alone := Start(t, Options{Standalone: true})
	if r := ask(t, alone, d("aggregate", "c", "pipeline", a{d("$changeStream", d())}, "cursor", d(), "$db", "db")); field(r, "code") != int32(40573) {
		t.Error(r)
	}
}

func TestTheClockIsThatOfTheOptions(t *testing.T) {
	s := Start(t, Options{Clock: func() time.Time { return time.UnixMicro(1_700_000_000_123_999) }})
	r := ask(t, s, modify(set("x", "$$NOW")))
	if x := at(r, []string{"value", "x"}); x != now {
		t.Errorf("%v, want it cut to milliseconds", x)
	}
}

// Of each session a server keeps the newest retryable write.
func TestOfASessionTheNewestWriteIsKept(t *testing.T) {
	s := Start(t, Options{})
	write := func(number int64, of int32) bson.D {
		return ask(t, s, modify(set("x", of), "lsid", d("id", "one"), "txnNumber", number))
	}
	write(1, 1)
	write(2, 2)
	if r := write(2, 9); field(field(r, "value").(bson.D), "x") != int32(2) {
		t.Errorf("repeated: %v", r)
	}
	if r := write(1, 9); field(r, "code") != int32(225) {
		t.Errorf("an old one: %v, want 225", r)
	}
	if s.Written() != 2 {
		t.Errorf("%d writes, want 2", s.Written())
	}
}

// A stream that is too far behind cannot go on.
func TestAStreamThatIsTooFarBehindIsLost(t *testing.T) {
	s := Start(t, Options{})
	opened := ask(t, s, d("aggregate", "c", "pipeline", a{d("$changeStream", d())}, "cursor", d(), "$db", "db"))
	id := field(field(opened, "cursor").(bson.D), "id")
	s.mu.Lock()
	for range mostEvents + 1 {
		s.changed("db.other", nil, d("_id", "n"))
	}
	s.mu.Unlock()
	if r := ask(t, s, d("getMore", id, "collection", "c", "maxTimeMS", int32(1), "$db", "db")); field(r, "code") != int32(286) {
		t.Errorf("%v, want 286", r)
	}
}

// A $facet makes a document where there is none.
func TestAFacetIsOneDocument(t *testing.T) {
	s := Start(t, Options{})
	for _, want := range []bson.D{d("none", a{}), d("none", a{d("_id", "n", "x", int32(1))})} {
		r := ask(t, s, d("aggregate", "c", "pipeline", a{d("$facet", d("none", a{d("$match", d("_id", "n"))}))}, "cursor", d(), "$db", "db"))
		if batch := field(field(r, "cursor").(bson.D), "firstBatch"); !reflect.DeepEqual(batch, value(a{want})) {
			t.Errorf("%v, want %v", batch, want)
		}
		ask(t, s, modify(set("x", int32(1))))
	}
}
