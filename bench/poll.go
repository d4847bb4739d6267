package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// pollQueues are the lengths of the two queues whose polls are compared.
var pollQueues = []int{10, 1000}

// polls is the number of polls of each queue in a round: each waiter of the longer queue polls
// once, which also keeps its position.
const polls = 1000

// The columns of polls. Ask keeps the waiter's position; Poll only reads.
const (
	pollServer = "server time a poll"
	readServer = "server time a poll without a write"
)

// pollSuite measures what a waiter's poll costs Redis in a short and in a long queue. There is
// no comparison, because no other library has a queue.
func pollSuite(ctx context.Context, s setup) error {
	server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	title, err := redisTitle(ctx, rdb)
	if err != nil {
		return err
	}
	s = s.at(title)
	st, err := redisstore.New(rdb, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	name := func(n int) string { return fmt.Sprintf("holdfast, %d waiters", n) }
	var runners []runner
	for _, n := range pollQueues {
		q, err := newPollQueue(ctx, st, n)
		if err != nil {
			return err
		}
		runners = append(runners, runner{name(n), func(ctx context.Context) (measure, error) { return q.measure(ctx, rdb) }})
	}
	return rounds(ctx, s, "Redis: polls of the waiters of one name", name(pollQueues[0]), []column{
		elapsed(pollServer).beside(), elapsed(readServer).beside(), elapsed("p50").beside(),
	}, runners)
}

// A pollQueue is a held name and its waiters.
type pollQueue struct {
	st   *redisstore.Store
	name string
	from store.Process
	all  []store.Claim
}

func newPollQueue(ctx context.Context, st *redisstore.Store, n int) (*pollQueue, error) {
	q := &pollQueue{st: st, name: fmt.Sprintf("poll/%d", n), from: store.NewProcess()}
	if _, err := st.Ask(ctx, q.claim()); err != nil { // the holder
		return nil, err
	}
	for range n {
		c := q.claim()
		if _, err := st.Ask(ctx, c); err != nil {
			return nil, err
		}
		q.all = append(q.all, c)
	}
	return q, nil
}

func (q *pollQueue) claim() store.Claim {
	return store.Claim{
		Name: q.name, ID: q.from.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Hour, PositionTTL: store.MaxPositionTTL,
	}
}

// poll polls for one waiter. If its position has expired because the others took long, the
// waiter joins again.
func (q *pollQueue) poll(ctx context.Context, i int, by func(context.Context, store.Claim) (store.Answer, error)) error {
	_, err := by(ctx, q.all[i])
	if errors.Is(err, store.ErrLost) {
		q.all[i] = q.claim()
		_, err = q.st.Ask(ctx, q.all[i])
	}
	return err
}

func (q *pollQueue) measure(ctx context.Context, rdb *redis.Client) (measure, error) {
	for i := range q.all { // join again where positions have expired
		if err := q.poll(ctx, i, q.st.Ask); err != nil {
			return nil, err
		}
	}
	m := measure{}
	var all []time.Duration
	for _, by := range []struct {
		column string
		poll   func(context.Context, store.Claim) (store.Answer, error)
	}{{pollServer, q.st.Ask}, {readServer, q.st.Poll}} {
		before, n, err := scriptTime(ctx, rdb)
		if err != nil {
			return nil, err
		}
		for i := range polls {
			begun := time.Now()
			if err := q.poll(ctx, i*7%len(q.all), by.poll); err != nil { // spread over the queue
				return nil, err
			}
			if by.column == pollServer {
				all = append(all, time.Since(begun))
			}
		}
		after, n2, err := scriptTime(ctx, rdb)
		if err != nil {
			return nil, err
		}
		if n2 == n {
			return nil, errors.New("the server counts no scripts")
		}
		m[by.column] = (after - before) / (n2 - n)
	}
	m["p50"] = float64(median(all))
	return m, nil
}

// scriptTime returns how many nanoseconds the server has spent on scripts, and on how many
// scripts.
func scriptTime(ctx context.Context, rdb *redis.Client) (ns, calls float64, err error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(info) {
		if !strings.HasPrefix(line, "cmdstat_eval") {
			continue
		}
		var n, us float64
		_, counted, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscanf(counted, "calls=%f,usec=%f,", &n, &us); err != nil {
			return 0, 0, fmt.Errorf("commandstats: %q: %w", line, err)
		}
		ns, calls = ns+1000*us, calls+n
	}
	return ns, calls, nil
}
