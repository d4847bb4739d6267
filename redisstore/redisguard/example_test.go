package redisguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redisstore/redisguard"
)

// The state of an invoice is written only while nobody with a newer token has
// been at it.
func ExampleDo() {
	_ = func(ctx context.Context, client redis.UniversalClient, lease *holdfast.Lease) error {
		err := redisguard.Do(ctx, client, lease, "SET", "invoice:42", "sent").Err()
		if errors.Is(err, holdfast.ErrLost) {
			return fmt.Errorf("somebody else is at it: %w", err) // nothing was written
		}
		return err
	}
}

// Several keys at once: they share a hash tag.
func ExampleScript() {
	pay := redisguard.NewScript(`
		redis.call('SET', KEYS[1], 'paid')
		return redis.call('RPUSH', KEYS[2], ARGV[1])`)
	_ = func(ctx context.Context, client redis.UniversalClient, lease *holdfast.Lease) error {
		return pay.Run(ctx, client, lease, []string{"{invoice:42}:state", "{invoice:42}:log"}, "paid by card").Err()
	}
}
