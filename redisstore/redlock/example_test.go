package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// Each server has a client of its own, and the clients do not retry: the majority replaces that. The example does not lock: a server that has
// just started grants nothing for MaxTTL.
func ExampleNew() {
	var clients []*redis.Client
	for _, addr := range []string{"10.0.0.1:6379", "10.0.1.1:6379", "10.0.2.1:6379"} {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
		defer c.Close()
		clients = append(clients, c)
	}
	s, err := redlock.New(clients, nil)
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
	fmt.Println(s.Describe().Store)
	// Output: Redlock on 10.0.0.1:6379, 10.0.1.1:6379, 10.0.2.1:6379
}

// No claim may last longer than MaxTTL, which must be the same for all clients.
func ExampleOpen() {
	s, err := redlock.Open("redlock:redis://10.0.0.1,redis://10.0.1.1,redis://10.0.2.1?max-ttl=20s", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	_, err = s.Ask(context.Background(), store.Claim{
		Name: "invoice/42", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Minute,
	})
	fmt.Println(s.Describe().MaxTTL, errors.Is(err, store.ErrInvalid))
	// Output: 20s true
}
