package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore"
)

// The client is one that you have already, and it remains yours.
func ExampleNew() {
	addr, stop := exampleServer()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	s, err := redisstore.New(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(s, nil)
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

// On a server with a replica and an append-only file, a grant is on the disk and at the replica before it is reported. So a restart loses no
// grant. The list still has a fail-over: with more replicas, one that has not confirmed can take over.
func ExampleOpen() {
	s, err := redisstore.Open("redis://10.0.0.1:6379/0?replicas=1&durable=1", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	fmt.Println(s.Describe().Store)
	fmt.Println("it can forget when it is", s.Describe().Forgets)
	// Output:
	// Redis at 10.0.0.1:6379, database 0
	// it can forget when it is [wiped fail-over clock step]
}

// exampleServer starts a Redis for the examples.
func exampleServer() (addr string, stop func()) { return testserver.ExampleRedis() }
