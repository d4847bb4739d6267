package main

import (
	"context"
	"fmt"
	"time"
)

// hot has many processes take one name in turn, on each store, doing nothing while they hold
// it, and counts the cost to the server.
func hot(ctx context.Context, s setup) error {
	few := s.atMost(3)
	few.slice *= 10 // even a slow store gives each process several turns
	return eachStore(s, func(on served) error {
		return on.during(ctx, func(at running) error { return hotName(ctx, few.at(at.server), on, at) })
	})
}

func hotName(ctx context.Context, s setup, on served, at running) error {
	cs := patient(on.all)
	if err := tryOut(ctx, at, cs...); err != nil {
		return err
	}
	var runners []runner
	for _, c := range cs {
		all, stop, err := startChildren(ctx, on.name, c, at.target, s.hot)
		if err != nil {
			return err
		}
		defer stop()
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return spin(ctx, at.count, c, all, s.slice)
		}})
	}
	return rounds(ctx, s, fmt.Sprintf("%s: one hot name, %d processes", on.title, s.hot), on.peer,
		[]column{
			rate("locks/s"), perLock, fraction("least/most a process"), stalled,
		}, runners)
}

// spin has all children lock one name for d.
func spin(ctx context.Context, count counter, c contender, all []*process, d time.Duration) (measure, error) {
	sum, least, most, stalls := 0, -1, 0, 0
	costs, err := count.during(ctx, c, func() error {
		for _, p := range all {
			if err := p.tell("spin hot %d", d.Milliseconds()); err != nil {
				return err
			}
		}
		for _, p := range all {
			var n, missed int
			if err := p.hear(&n, &missed); err != nil {
				return err
			}
			stalls += missed
			sum += n
			most = max(most, n)
			if least < 0 || n < least {
				least = n
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m := measure{"stalled": float64(stalls), "locks/s": float64(sum) / d.Seconds()}
	if sum > 0 {
		m["least/most a process"] = float64(least) / float64(most)
		m.perLock(costs, sum)
	}
	return m, nil
}

// perLock adds the cost of each of n locks to the server, if the server counts it.
func (m measure) perLock(costs measure, n int) {
	if sent, ok := costs[requests]; ok && n > 0 {
		m["requests/lock"] = sent / float64(n)
	}
}
