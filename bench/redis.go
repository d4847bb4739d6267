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
	{"holdfast", openOnRedis, []string{"get", "mget", "exists", "set", "del", "time", "publish", "pexpire", "hmget", "hset", "hdel", "hgetall"}},
	{"redislock", openRedislock, []string{"get", "set", "del", "pexpire", "pttl", "exists"}},
	{"redsync", openRedsync, []string{"get", "del"}}, // it sends SET itself
	{"rueidislock", openRueidis, []string{"get", "set", "del", "pexpireat"}},
	{bare, openBare, []string{"get", "del"}},
}

// bare is no library: what everybody writes first.
const bare = "SET NX + delete"

// reference is what the ratios of the Redis tables refer to.
const reference = "redislock"

type oursOnRedis struct {
	ours
	rdb *redis.Client
}

func openOnRedis(addr string) (locks, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l, err := newOnRedis(rdb, &holdfast.Options{TTL: ttl})
	return oursOnRedis{ours{l}, rdb}, err
}

func newOnRedis(rdb *redis.Client, o *holdfast.Options) (*holdfast.Locker, error) {
	s, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return holdfast.New(s, o)
}

func (o oursOnRedis) close() error {
	defer o.rdb.Close()
	return o.ours.close()
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
	if err := redisHandoff(ctx, s, rdb, addr); err != nil {
		return err
	}
	return hotName(ctx, s, rdb, addr)
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

// hotName lets many processes take one name in turn, doing nothing while they
// have it, and counts what that costs the server.
func hotName(ctx context.Context, s setup, rdb *redis.Client, addr string) error {
	var runners []runner
	for _, c := range onRedis {
		var all []*process
		defer func() {
			for _, p := range all {
				p.stop()
			}
		}()
		for range s.hot {
			p, err := startChild(ctx, "redis", c, addr)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return spin(ctx, rdb, c, all, s.slice)
		}})
	}
	return rounds(ctx, s, fmt.Sprintf("Redis: one hot name, %d processes", s.hot), reference,
		[]column{
			{name: "locks/s", print: count, ratio: true},
			{name: "commands/lock", print: decimals},
			{name: "least/most a process", print: decimals},
			{name: "stalled", print: count, sum: true},
		}, runners)
}

// spin lets all children lock one name for d.
func spin(ctx context.Context, rdb *redis.Client, c contender, all []*process, d time.Duration) (measure, error) {
	before, err := sent(ctx, rdb, c.inner)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if err := p.tell("spin hot %d", d.Milliseconds()); err != nil {
			return nil, err
		}
	}
	sum, least, most, stalls := 0, -1, 0, 0
	for _, p := range all {
		var n, stalled int
		if err := p.hear(&n, &stalled); err != nil {
			return nil, err
		}
		stalls += stalled
		sum += n
		most = max(most, n)
		if least < 0 || n < least {
			least = n
		}
	}
	after, err := sent(ctx, rdb, c.inner)
	if err != nil {
		return nil, err
	}
	if sum == 0 {
		return measure{"locks/s": 0, "stalled": float64(stalls)}, nil
	}
	return measure{
		"stalled":              float64(stalls),
		"locks/s":              float64(sum) / d.Seconds(),
		"commands/lock":        float64(after-before) / float64(sum),
		"least/most a process": float64(least) / float64(most),
	}, nil
}
