package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redisstore"
)

var onRedis = []contender{
	onStore(openOnRedis, oursInRedis...),
	{name: "redislock", open: openRedislock, inner: []string{"get", "set", "del", "pexpire", "pttl", "exists"}},
	{name: "redsync", open: openRedsync, inner: []string{"get", "del"}}, // it sends SET itself
	{name: "rueidislock", open: openRueidis, inner: []string{"get", "set", "del", "pexpireat"}},
	{name: bare, open: openBare, inner: []string{"get", "del"}},
}

// oursInRedis are the commands of our scripts.
var oursInRedis = []string{"get", "mget", "exists", "set", "del", "time", "publish", "pexpire", "hmget", "hset", "hdel", "hgetall"}

// bare is no library: what everybody writes first.
const bare = "SET NX + delete"

// reference is what the ratios of the Redis tables refer to.
const reference = "redislock"

func openOnRedis(addr string, o *holdfast.Options) (ours, error) {
	return oursOnClient(redis.NewClient(&redis.Options{Addr: addr}), o)
}

func oursOnClient(rdb *redis.Client, o *holdfast.Options) (ours, error) {
	s, err := redisstore.New(rdb, nil)
	return oursOn(s, err, o, func() { rdb.Close() })
}

func newOnRedis(rdb *redis.Client, o *holdfast.Options) (*holdfast.Locker, error) {
	s, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return holdfast.New(s, o)
}

func redisSuite(ctx context.Context, s setup) error {
	server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	addr := server.Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	version, err := redisVersion(ctx, rdb)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nRedis %s on the loopback, without persistence\n", version)
	if err := uncontended(ctx, s, "Redis", reference, onRedis, addr, 1, 64); err != nil {
		return err
	}
	return redisHandoff(ctx, s, rdb, addr)
}

// redisHandoff shows the raw round trip beside the hand-off: it is what a
// hand-off over the network cannot do without.
func redisHandoff(ctx context.Context, s setup, rdb *redis.Client, addr string) error {
	runners, stop, err := handoffRunners(ctx, s, "redis", onRedis, addr)
	if err != nil {
		return err
	}
	defer stop()
	runners = append(runners, runner{"PING", func(ctx context.Context) (measure, error) {
		var took []float64
		for range s.turns {
			pauseBeforeTurn() // a processor that has slept is slower
			start := time.Now()
			if err := rdb.Ping(ctx).Err(); err != nil {
				return nil, err
			}
			took = append(took, float64(time.Since(start)))
		}
		return measure{"round trip": median(took)}, nil
	}})
	return rounds(ctx, s, "Redis: hand-off between two processes, from the call of unlock to the return of lock", reference,
		append(handoffColumns, column{name: "round trip", print: duration}), runners)
}
