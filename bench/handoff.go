package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// handoffRunners measure the time from the start of a release in one process until the lock
// call returns in another process that waits. stop ends the processes.
func handoffRunners(ctx context.Context, s setup, suite string, cs []contender, target string) (runners []runner, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for _, c := range cs {
		two, end, err := startChildren(ctx, suite, c, target, 2)
		if err != nil {
			stop()
			return nil, nil, err
		}
		stops = append(stops, end)
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return handoffs(ctx, two, s.turns)
		}})
	}
	return runners, stop, nil
}

// handoffs passes one name between two processes.
func handoffs(ctx context.Context, two []*process, turns int) (measure, error) {
	holder, waiter := two[0], two[1]
	if _, err := take(holder); err != nil {
		return nil, err
	}
	var handoff, release []float64
	missed := 0
	for range turns {
		if err := waiter.tell("lock handoff"); err != nil {
			return nil, err
		}
		pauseBeforeTurn()
		before, after, err := give(holder)
		if err != nil {
			return nil, err
		}
		var got int64
		if err := waiter.hear(&got); err != nil {
			return nil, err
		}
		holder, waiter = waiter, holder
		if got == 0 {
			missed++
			if _, err := take(holder); err != nil {
				return nil, err
			}
			continue
		}
		handoff = append(handoff, float64(got-before))
		release = append(release, float64(after-before))
	}
	if _, _, err := give(holder); err != nil {
		return nil, err
	}
	m := measure{"stalled": float64(missed)}
	if len(handoff) > 0 {
		m["hand-off p50"], m["release p50"] = median(handoff), median(release)
	}
	return m, ctx.Err()
}

// pauseBeforeTurn lets the waiter fall asleep. It is random, so that it ends at any point of a
// polling waiter's pause.
func pauseBeforeTurn() { time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond)) }

// take has the process lock a name that is free, or soon will be.
func take(p *process) (got int64, err error) {
	for range 20 {
		if err = p.tell("lock handoff"); err == nil {
			err = p.hear(&got)
		}
		if err != nil || got != 0 {
			return got, err
		}
	}
	return 0, errors.New("cannot lock a name that is free")
}

// give has the process unlock, and returns the times before and after the call.
func give(p *process) (before, after int64, err error) {
	if err = p.tell("unlock"); err == nil {
		err = p.hear(&before, &after)
	}
	return before, after, err
}

var handoffColumns = []column{
	elapsed("hand-off p50").beside(), elapsed("release p50"), stalled,
}

// handoff prints the table of hand-offs.
func handoff(ctx context.Context, s setup, title, reference, suite string, cs []contender, target string) error {
	runners, stop, err := handoffRunners(ctx, s, suite, cs, target)
	if err != nil {
		return err
	}
	defer stop()
	return rounds(ctx, s, title+": hand-off between two processes, from the call of unlock to the return of lock", reference, handoffColumns, runners)
}
