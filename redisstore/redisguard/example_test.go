package redisguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/redisguard"
)

// The state of an invoice is written only if nobody with a newer token has written it.
func ExampleDo() {
	addr, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	store, err := redisstore.New(client, nil)
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
	mark := func(state string) *holdfast.Lease {
		lease, err := locks.Mutex("invoice/42").Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		defer lease.Release()
		fmt.Println(redisguard.Do(ctx, client, lease, "SET", "invoice:42", state).Err())
		return lease
	}
	first := mark("new")
	mark("sent")
	// A late holder that does not know of the newer one writes nothing.
	err = redisguard.Do(ctx, client, first, "SET", "invoice:42", "new").Err()
	fmt.Println(errors.Is(err, holdfast.ErrLost), client.Get(ctx, "invoice:42").Val())
	// Output:
	// <nil>
	// <nil>
	// true sent
}

// Several keys at once must share a hash tag.
func ExampleScript() {
	addr, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	store, err := redisstore.New(client, nil)
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
	pay := redisguard.NewScript(`
		redis.call('SET', KEYS[1], 'paid')
		return redis.call('RPUSH', KEYS[2], ARGV[1])`)
	err = locks.Mutex("invoice/43").Do(ctx, func(ctx context.Context) error {
		return pay.Run(ctx, client, holdfast.LeaseFrom(ctx), []string{"{invoice:43}:state", "{invoice:43}:log"}, "paid by card").Err()
	})
	fmt.Println(err, client.Get(ctx, "{invoice:43}:state").Val(), client.LRange(ctx, "{invoice:43}:log", 0, -1).Val())
	// Output: <nil> paid [paid by card]
}

// exampleServer starts a Redis for the examples.
func exampleServer() (addr string, stop func()) { return testserver.ExampleRedis() }
