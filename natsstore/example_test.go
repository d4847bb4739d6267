package natsstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/natsstore"
)

// The connection is your own, with its users and TLS. The store does not close it.
func ExampleNew() {
	addr, stop := exampleServer()
	defer stop()
	nc, err := nats.Connect(addr, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.PingInterval(3*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	store, err := natsstore.New(nc, nil)
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

// In production several servers replicate the bucket.
func ExampleOptions() {
	addr, stop := exampleServer()
	defer stop()
	nc, err := nats.Connect(addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	store, err := natsstore.New(nc, &natsstore.Options{Bucket: "jobs", Replicas: 1}) // in production: 3
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

// ParseURL is for a connection that needs more than a URL can say.
func ExampleParseURL() {
	c, o, err := natsstore.ParseURL("nats://10.0.0.1,10.0.0.2?bucket=jobs&replicas=3")
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Name = "billing"
	fmt.Println(c.Servers, o.Bucket, o.Replicas)
	// Output: [nats://10.0.0.1:4222 nats://10.0.0.2:4222] jobs 3
}

// exampleServer is a NATS server that the tests start.
func exampleServer() (addr string, stop func()) { return testserver.ExampleNATS() }
