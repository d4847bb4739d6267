package mongosim

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// With the driver: the second insert of an _id is a duplicate, a delete reports whether there was a document, and each
// change is reported once.
func TestADocumentIsMadeOnceAndDeletedOnce(t *testing.T) {
	s := Start(t, Options{})
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()).SetRetryWrites(false))
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
	for i, duplicate := range []bool{false, true} {
		if _, err := c.InsertOne(t.Context(), d("_id", "n", "x", i)); mongo.IsDuplicateKeyError(err) != duplicate || err != nil && !duplicate {
			t.Errorf("insert %d: got %v", i, err)
		}
	}
	for i, want := range []int64{1, 0} {
		if r, err := c.DeleteOne(t.Context(), d("_id", "n")); err != nil || r.DeletedCount != want {
			t.Errorf("delete %d: got %+v, %v, want %d deleted", i, r, err, want)
		}
	}
	if s.Written() != 2 {
		t.Errorf("got %d writes, want 2", s.Written())
	}
	for _, want := range []string{"insert", "delete"} {
		if !stream.Next(t.Context()) {
			t.Fatal(stream.Err())
		}
		if e := decode(stream.Current); field(e, "operationType") != want || at(e, []string{"documentKey", "_id"}) != "n" {
			t.Errorf("got %v, want %s of n", e, want)
		}
	}
}

func TestAnInvalidDocumentIsRefused(t *testing.T) {
	s := Start(t, Options{})
	for _, command := range []bson.D{
		d("insert", "c", "documents", a{d("_id", "n"), d("_id", "m")}, "$db", "db"),
		d("insert", "c", "documents", a{d("x", "n")}, "$db", "db"),
		d("delete", "c", "deletes", a{d("q", d(), "limit", int32(0))}, "$db", "db"),
		d("delete", "c", "deletes", a{d("q", d(), "limit", int32(1), "hint", "x")}, "$db", "db"),
	} {
		if r := ask(t, s, command); field(r, "code") != int32(238) {
			t.Errorf("%v: %v", command, r)
		}
	}
	if s.Written() != 0 {
		t.Errorf("got %d writes, want none", s.Written())
	}
}
