package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A crowd is many goroutines of a process that compete for one name.
const (
	crowdAlone = 100 // in one process
	crowdOfTwo = 50  // in each of two processes
)

// crowd has goroutines lock and unlock one name without pause for d. They do nothing while they
// hold it.
func crowd(l locks, name string, goroutines int, d time.Duration) (c crowded, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d+patience)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards the results
		given time.Time  // when the last holder unlocked; guarded by the lock itself
		took  []time.Duration
	)
	start := time.Now()
	for range goroutines {
		wg.Go(func() {
			mine, stuck := 0, 0
			var why error
			for why == nil && stuck == 0 && time.Since(start) < d {
				var unlock func() error
				unlock, why = l.lock(ctx, name)
				if why != nil && ctx.Err() != nil { // whatever error the library returned
					stuck, why = 1, nil
					continue
				}
				if why != nil {
					continue
				}
				now := time.Now()
				if !given.IsZero() && len(took) < 100_000 {
					took = append(took, now.Sub(given))
				}
				mine++
				given = time.Now()
				why = unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			if c.most = max(c.most, mine); c.n == 0 && c.stalled == 0 || mine < c.least {
				c.least = mine
			}
			c.n += mine
			c.stalled += stuck
			err = errors.Join(err, why)
		})
	}
	wg.Wait()
	if len(took) > 0 {
		c.handover = median(took)
	}
	return c, err
}

// crowded is the result of a crowd.
type crowded struct {
	n           int           // how often they got the name
	least, most int           // how often one goroutine got it
	handover    time.Duration // the median from the call of unlock to the return of the next lock
	stalled     int           // goroutines still waiting long after all had stopped
}

func (c crowded) measure(d time.Duration) measure {
	return measure{
		"locks/s": float64(c.n) / d.Seconds(), "hand-over p50": float64(c.handover),
		"least/most a goroutine": float64(c.least) / float64(max(c.most, 1)), "stalled": float64(c.stalled),
	}
}

var crowdColumns = []column{
	rate("locks/s"), elapsed("hand-over p50"), fraction("least/most a goroutine"),
}

// crowds measures crowds on Redis: one in this process, and one split over two processes.
func crowds(ctx context.Context, s setup) error {
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
	counted := countRedis(rdb)
	var here, two []runner
	for _, c := range onRedis {
		l, err := c.open(addr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer l.close()
		here = append(here, runner{c.name, func(ctx context.Context) (measure, error) {
			var came crowded
			costs, err := counted.during(ctx, c, func() (err error) {
				came, err = crowd(l, "crowd", crowdAlone, s.slice)
				return err
			})
			m := came.measure(s.slice)
			m.perLock(costs, came.n)
			return m, err
		}})
		pair, end, err := startChildren(ctx, "redis", c, addr, 2)
		if err != nil {
			return err
		}
		defer end()
		two = append(two, runner{c.name, func(context.Context) (measure, error) { return crowdPair(pair, s.slice) }})
	}
	title = fmt.Sprintf("Redis: one name, %d goroutines of one process", crowdAlone)
	if err := rounds(ctx, s, title, bestPeer, append(crowdColumns, perLock, stalled), here); err != nil {
		return err
	}
	title = fmt.Sprintf("Redis: one name, two processes of %d goroutines", crowdOfTwo)
	return rounds(ctx, s, title, bestPeer, []column{
		rate("locks/s"), fraction("share of the less served"), stalled,
	}, two)
}

func crowdPair(pair []*process, d time.Duration) (measure, error) {
	for _, p := range pair {
		if err := p.tell("crowd crowd %d %d", crowdOfTwo, d.Milliseconds()); err != nil {
			return nil, err
		}
	}
	var n, missed [2]int
	for i, p := range pair {
		if err := p.hear(&n[i], &missed[i]); err != nil {
			return nil, err
		}
	}
	all := max(n[0]+n[1], 1)
	return measure{
		"locks/s":                  float64(all) / d.Seconds(),
		"share of the less served": float64(min(n[0], n[1])) / float64(all),
		"stalled":                  float64(missed[0] + missed[1]),
	}, nil
}
