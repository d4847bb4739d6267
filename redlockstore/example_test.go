package redlockstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlockstore"
)

// Each server has a client of its own; the majority is the retry.
func ExampleNew() {
	var clients []*redis.Client
	for _, addr := range []string{"10.0.0.1:6379", "10.0.1.1:6379", "10.0.2.1:6379"} {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1}))
	}
	keeper, err := redlockstore.New(clients, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(keeper, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	fmt.Println(keeper.Describe().Store)
	// Output: Redlock on 10.0.0.1:6379, 10.0.1.1:6379, 10.0.2.1:6379
}

// What a claim may not be longer than is MaxTTL, one number for all clients.
func ExampleOpen() {
	keeper, err := redlockstore.Open("redlock:redis://10.0.0.1,redis://10.0.1.1,redis://10.0.2.1?max-ttl=20s", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = holdfast.New(keeper, nil) // with the default TTL of 30 s
	fmt.Println(errors.Is(err, holdfast.ErrInvalid))
	keeper.Close()

	err = redlockstore.Trust(context.Background(), nil, nil)
	fmt.Println(err)
	// Output:
	// true
	// invalid: 0 Redis clients: want 1 to 31, and better 3 or 5
}
