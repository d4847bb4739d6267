package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredisadapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// ttl is the TTL of every contender. It is long, so that no renewal happens during a short
// measurement.
const ttl = 30 * time.Second

// someOwner is what the contenders write that are no libraries.
const someOwner = "0123456789abcdef0123456789abcdef"

// locks is a contender as one process opens it.
type locks interface {
	// lock waits until it has the name, and returns the function that unlocks it.
	lock(ctx context.Context, name string) (unlock func() error, err error)
	close() error
}

// A contender is one way to lock.
type contender struct {
	name string
	// open connects to the target: a server's address, or a directory.
	open func(target string) (locks, error)
	// inner are the Redis commands that its scripts call. Redis counts them, although no client
	// sent them.
	inner []string
	// alone says that it works only for names without contention.
	alone bool
	// with is open for holdfast with other options; nil for other libraries.
	with func(target string, o *holdfast.Options) (ours, error)
}

// onStore is the contender for holdfast on a store.
func onStore(with func(target string, o *holdfast.Options) (ours, error), inner ...string) contender {
	return contender{name: "holdfast", inner: inner, with: with, open: func(target string) (locks, error) {
		return with(target, &holdfast.Options{TTL: ttl})
	}}
}

// patient returns the contenders that can wait for a name.
func patient(cs []contender) (some []contender) {
	for _, c := range cs {
		if !c.alone {
			some = append(some, c)
		}
	}
	return some
}

func named(cs []contender, name string) (contender, error) {
	for _, c := range cs {
		if c.name == name {
			return c, nil
		}
	}
	return contender{}, fmt.Errorf("unknown contender %q", name)
}

// ours is holdfast on any store.
type ours struct {
	*holdfast.Locker
	end func() // closes the store's client; nil: there is no client
}

// oursOn returns a locker on a new store. end closes the store's client.
func oursOn(s store.Store, err error, o *holdfast.Options, end func()) (ours, error) {
	var l *holdfast.Locker
	if err == nil {
		l, err = holdfast.New(s, o)
	}
	if err != nil && end != nil {
		end()
	}
	return ours{l, end}, err
}

func (o ours) lock(ctx context.Context, name string) (func() error, error) {
	lease, err := o.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (o ours) close() error {
	if o.end != nil {
		defer o.end()
	}
	return o.Close()
}

// lockRedislock polls every 10 ms: it has no notifications, and without a retry strategy it
// does not wait at all.
type lockRedislock struct {
	rdb    *redis.Client
	client *redislock.Client
}

func openRedislock(addr string) (locks, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return lockRedislock{rdb, redislock.New(rdb)}, nil
}

func (p lockRedislock) lock(ctx context.Context, name string) (func() error, error) {
	l, err := p.client.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return func() error { return l.Release(context.Background()) }, nil
}

func (p lockRedislock) close() error { return p.rdb.Close() }

// lockRedsync keeps its own retry delays, but never stops retrying, and waits 6 s for an
// answer: a stall of the machine must not affect the result.
type lockRedsync struct {
	rdb *redis.Client
	rs  *redsync.Redsync
}

func openRedsync(addr string) (locks, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return lockRedsync{rdb, redsync.New(goredisadapter.NewPool(rdb))}, nil
}

func (p lockRedsync) lock(ctx context.Context, name string) (func() error, error) {
	m := p.rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30), redsync.WithTimeoutFactor(0.2))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		if ok, err := m.UnlockContext(context.Background()); err != nil || !ok {
			return fmt.Errorf("unlock: %v, %w", ok, err)
		}
		return nil
	}, nil
}

func (p lockRedsync) close() error { return p.rdb.Close() }

// lockRueidis uses one key for each lock, like the others. By default it waits only 20 ms for
// an answer, and then for a notification that may never come; on a busy machine it hung.
type lockRueidis struct{ l rueidislock.Locker }

func openRueidis(addr string) (locks, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1, KeyValidity: ttl, NoLoopTracking: true, TryNextAfter: 5 * time.Second,
	})
	return lockRueidis{l}, err
}

func (p lockRueidis) lock(ctx context.Context, name string) (func() error, error) {
	_, cancel, err := p.l.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { cancel(); return nil }, nil // it returns no error
}

func (p lockRueidis) close() error { p.l.Close(); return nil }

// lockBare is the simplest Redis lock: SET NX PX and a compare-and-delete. It is the lower
// bound: no queue, no token, no renewal, no notification.
type lockBare struct{ rdb *redis.Client }

func openBare(addr string) (locks, error) {
	return lockBare{redis.NewClient(&redis.Options{Addr: addr})}, nil
}

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func (p lockBare) lock(ctx context.Context, name string) (func() error, error) {
	for {
		err := p.rdb.SetArgs(ctx, name, someOwner, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
		if err == nil {
			break
		}
		if !errors.Is(err, redis.Nil) {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		return compareAndDelete.Run(context.Background(), p.rdb, []string{name}, someOwner).Err()
	}, nil
}

func (p lockBare) close() error { return p.rdb.Close() }
