package etcdstore_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The client is your own, with its users and TLS. The store does not close it.
func ExampleNew() {
	addr, stop := exampleServer()
	defer stop()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	store, err := etcdstore.New(client, nil)
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

// A namespace of the client is respected. Within it, a prefix keeps stores apart.
func ExampleOptions() {
	addr, stop := exampleServer()
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	client.KV = namespace.NewKV(client.KV, "team-a/")
	client.Watcher = namespace.NewWatcher(client.Watcher, "team-a/")
	store, err := etcdstore.New(client, &etcdstore.Options{Prefix: "jobs/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(store, &holdfast.Options{TTL: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ran, err := locks.Mutex("nightly").TryDo(context.Background(), func(context.Context) error { return nil })
	fmt.Println(ran, err)
	// Output: true <nil>
}

// ParseURL is for a client that needs more than a URL can say.
func ExampleParseURL() {
	config, o, err := etcdstore.ParseURL("etcd://10.0.0.1:2379,10.0.0.2:2379?prefix=jobs/&tls=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	config.MaxUnaryRetries = 3
	fmt.Println(config.Endpoints, o.Prefix, config.TLS != nil)
	// Output: [https://10.0.0.1:2379 https://10.0.0.2:2379] jobs/ true
}

// exampleServer is an etcd that the tests start.
func exampleServer() (addr string, stop func()) { return testserver.ExampleEtcd() }
