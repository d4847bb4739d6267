package mongostore

import (
	"context"
	"os"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
)

// The tests run on the server that HOLDFAST_TEST_MONGODB names; else on a mongod that they start, if there is one in
// the PATH; else on a stand-in. They also use the stand-in if the name is standIn.
const standIn = "stand-in"

const database = "holdfast_test"

// realURI is the URI of a MongoDB server, or "" if there is none.
func realURI(t testing.TB) string {
	t.Helper()
	switch uri := os.Getenv("HOLDFAST_TEST_MONGODB"); {
	case uri == standIn || uri == "" && !testserver.HasMongod():
		return ""
	case uri != "":
		return uri
	}
	return startedReplicaSet(t)
}

// serverURI is the URI of a server for this test.
func serverURI(t testing.TB) string {
	t.Helper()
	if uri := realURI(t); uri != "" {
		return uri
	}
	return mongosim.Start(t, mongosim.Options{}).URI()
}

// standaloneURI is the URI of a standalone server for this test. It skips the test where none can be started.
func standaloneURI(t testing.TB) string {
	t.Helper()
	switch uri := os.Getenv("HOLDFAST_TEST_MONGODB"); {
	case uri == standIn || uri == "" && !testserver.HasMongod():
		t.Skip(onlyReal)
	case uri != "":
		t.Skip("this test starts its own server, and one is named: HOLDFAST_TEST_MONGODB")
	}
	return "mongodb://" + testserver.Mongod(t).Addr
}

// onlyReal is why a test is skipped on the stand-in.
const onlyReal = "only a real MongoDB server shows this: name one in HOLDFAST_TEST_MONGODB, or put mongod in the PATH"

// realClient returns a client of a MongoDB server. Its tests show what a stand-in cannot.
func realClient(t testing.TB) *mongo.Client {
	t.Helper()
	uri := realURI(t)
	if uri == "" {
		t.Skip(onlyReal)
	}
	return clientOf(t, uri)
}

var replicaSet struct {
	sync.Mutex
	uri string
}

// startedReplicaSet is the URI of a replica set of one mongod. All tests share it.
func startedReplicaSet(t testing.TB) string {
	t.Helper()
	replicaSet.Lock()
	defer replicaSet.Unlock()
	if replicaSet.uri == "" {
		addr := testserver.SharedMongod(t, "--replSet", "holdfast")
		initiate(t, addr)
		replicaSet.uri = "mongodb://" + addr + "/?replicaSet=holdfast"
	}
	return replicaSet.uri
}

// initiate makes a mongod a replica set of one and waits until it is primary.
func initiate(t testing.TB, addr string) {
	t.Helper()
	admin := clientOf(t, "mongodb://"+addr+"/?directConnection=true").Database("admin")
	config := object("_id", "holdfast", "members", bson.A{object("_id", int32(0), "host", addr)})
	if err := admin.RunCommand(t.Context(), object("replSetInitiate", config)).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the server is primary", func() bool {
		var hello struct {
			Primary bool `bson:"isWritablePrimary"`
		}
		return admin.RunCommand(t.Context(), object("hello", 1)).Decode(&hello) == nil && hello.Primary
	})
}

// waitFor waits for what must happen.
var waitFor = testwait.Until

// clientOf returns a client, closed when the test ends.
func clientOf(t testing.TB, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client
}

// command runs a command. It skips the test if the server does not know or does not allow the command: then there is
// nothing to test.
func command(t testing.TB, db *mongo.Database, c bson.D) {
	t.Helper()
	if err := db.RunCommand(t.Context(), c).Err(); err != nil {
		t.Skipf("this MongoDB server does not let the tests %s: %v", c[0].Key, err)
	}
}

// kind is what the server reports itself to be.
func kind(t testing.TB, client *mongo.Client) (replicaSet, routed bool) {
	t.Helper()
	var hello struct {
		Set     string `bson:"setName"`
		Message string `bson:"msg"`
	}
	if err := client.Database("admin").RunCommand(t.Context(), object("hello", 1)).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	return hello.Set != "", hello.Message == "isdbgrid"
}
