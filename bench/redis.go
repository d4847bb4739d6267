package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redisstore"
)

var onRedis = []contender{
	onStore(openOnRedis, oursInRedis...),
	{name: "redislock", open: openRedislock, inner: []string{"get", "set", "del", "pexpire", "pttl", "exists"}},
	{name: "redsync", open: openRedsync, inner: []string{"get", "del"}}, // it sends SET outside of a script
	{name: "rueidislock", open: openRueidis, inner: []string{"get", "set", "del", "pexpireat"}},
	{name: bare, open: openBare, inner: []string{"get", "del"}},
}

// oursInRedis are the commands that our scripts call.
var oursInRedis = []string{"get", "mget", "exists", "set", "del", "time", "publish", "pexpire", "hmget", "hset", "hdel", "hgetall"}

// bare is not a library: it is the simplest Redis lock.
const bare = "SET NX + delete"

// reference is the contender that the ratios of the Redis tables refer to.
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
	title, err := redisTitle(ctx, rdb)
	if err != nil {
		return err
	}
	s = s.at(title)
	if err := uncontended(ctx, s, "Redis", reference, besideWrites(onRedis, openRedisWrites), addr, 1); err != nil {
		return err
	}
	if err := uncontended(ctx, s, "Redis", bestPeer, besideWrites(onRedis, openRedisWrites), addr, 64); err != nil {
		return err
	}
	return redisHandoff(ctx, s, rdb, addr)
}

// redisHandoff shows the raw round trip next to the hand-off: a hand-off over the network
// cannot be faster.
func redisHandoff(ctx context.Context, s setup, rdb *redis.Client, addr string) error {
	runners, stop, err := handoffRunners(ctx, s, "redis", onRedis, addr)
	if err != nil {
		return err
	}
	defer stop()
	runners = append(runners, runner{ping, func(ctx context.Context) (measure, error) {
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
	t := table{
		title: "Redis: hand-off between two processes, from the call of unlock to the return of lock", reference: reference,
		columns: append(handoffColumns, elapsed("round trip"), cost(overRelease, "PING"), cost(releaseOver, "PING")),
		runners: runners, derive: overPing,
	}
	return t.measure(ctx, s)
}

// The columns with the cost of a hand-off and a release, in round trips.
const (
	overRelease = "(hand-off − release) ÷ PING"
	releaseOver = "release ÷ PING"
)

// ping is not a lock.
const ping = "PING"

// overPing adds these columns to all measures of the round.
func overPing(round map[string]measure) {
	trip := round[ping]["round trip"]
	for _, m := range round {
		release, ok := m["release p50"]
		if !ok || trip == 0 {
			continue
		}
		m[overRelease], m[releaseOver] = (m["hand-off p50"]-release)/trip, release/trip
	}
}
