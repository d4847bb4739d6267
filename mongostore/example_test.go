package mongostore_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/mongostore"
)

// Locks through the client that a program already has.
func ExampleNew() {
	uri, stop := exampleServer() // "mongodb://db-1,db-2,db-3/?replicaSet=shop"
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Disconnect(context.Background())
	store, err := mongostore.New(client.Database("shop"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ran, err := locks.Mutex("nightly").TryDo(context.Background(), func(ctx context.Context) error {
		return nil // only one of all processes is here
	})
	fmt.Println(ran, err)
	// Output: true <nil>
}

// exampleServer speaks the protocol of a MongoDB server: the tests need no real one.
func exampleServer() (uri string, stop func()) {
	s, err := mongosim.Serve("127.0.0.1:0", mongosim.Options{})
	if err != nil {
		panic(err)
	}
	return s.URI(), s.Stop
}
