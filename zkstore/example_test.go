package zkstore_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/zkstore"
)

// A Store has connections of its own, one for each TTL.
func ExampleNew() {
	addr, stop := exampleServer()
	defer stop()
	store, err := zkstore.New([]string{addr}, &zkstore.Options{
		Path: "/team/locks",
		Auth: []zkstore.Auth{{Scheme: "digest", Secret: "team:secret"}},
	})
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
	err = locks.Mutex("invoice/42").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("alone, with a token:", holdfast.LeaseFrom(ctx).Token() > 0)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: alone, with a token: true
}

// ParseURL is for a store that needs more than a URL can say.
func ExampleParseURL() {
	servers, o, err := zkstore.ParseURL("zk://10.0.0.1:2181,10.0.0.2:2181/team/locks?tls=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(servers, o.Path, o.Dial != nil)
	// Output: [10.0.0.1:2181 10.0.0.2:2181] /team/locks true
}

// exampleServer is a ZooKeeper server that the tests start.
func exampleServer() (addr string, stop func()) { return testserver.ExampleZooKeeper() }
