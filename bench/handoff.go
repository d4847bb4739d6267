package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// handoffRunners measure how long it takes from the beginning of a release in
// one process until the lock has returned in another that waits. stop ends the
// processes.
func handoffRunners(s setup, suite string, cs []contender, target string) (runners []runner, stop func(), err error) {
	var all []*process
	stop = func() {
		for _, p := range all {
			p.stop()
		}
	}
	for _, c := range cs {
		var two [2]*process
		for i := range two {
			p, err := startChild(suite, c, target)
			if err != nil {
				stop()
				return nil, nil, fmt.Errorf("%s: %w", c.name, err)
			}
			two[i] = p
			all = append(all, p)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return handoffs(ctx, two, s.turns)
		}})
	}
	return runners, stop, nil
}

// handoffs passes one name between two processes.
func handoffs(ctx context.Context, two [2]*process, turns int) (measure, error) {
	holder, waiter := two[0], two[1]
	var got, before, after int64
	if err := holder.tell("lock handoff"); err != nil {
		return nil, err
	}
	if err := holder.hear(&got); err != nil {
		return nil, err
	}
	var handoff, release []float64
	for range turns {
		if ctx.Err() != nil {
			break
		}
		if err := waiter.tell("lock handoff"); err != nil {
			return nil, err
		}
		// The waiter is to be asleep by then; and who polls is to be met at
		// any point of its pause.
		time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond))
		if err := holder.tell("unlock"); err != nil {
			return nil, err
		}
		if err := holder.hear(&before, &after); err != nil {
			return nil, err
		}
		if err := waiter.hear(&got); err != nil {
			return nil, err
		}
		handoff = append(handoff, float64(got-before))
		release = append(release, float64(after-before))
		holder, waiter = waiter, holder
	}
	if err := holder.tell("unlock"); err != nil {
		return nil, err
	}
	if err := holder.hear(&before, &after); err != nil {
		return nil, err
	}
	if len(handoff) == 0 {
		return nil, ctx.Err()
	}
	return measure{"hand-off p50": median(handoff), "release p50": median(release)}, nil
}
