package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pairs locks and unlocks without pause for d, at least once in each goroutine, with a separate
// name for each goroutine. It returns the pairs per second and the median time.
func pairs(ctx context.Context, l locks, goroutines int, d time.Duration) (measure, error) {
	took := make([][]time.Duration, goroutines)
	errs := make([]error, goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			// Each goroutine has its own context, as requests do.
			ctx := ctx
			if ctx.Done() != nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
			}
			name := fmt.Sprintf("bench/%d", g)
			for begun := time.Now(); len(took[g]) == 0 || begun.Sub(start) < d; {
				unlock, err := l.lock(ctx, name)
				if err == nil {
					err = unlock()
				}
				if err != nil {
					errs[g] = err
					return
				}
				ended := time.Now()
				took[g] = append(took[g], ended.Sub(begun))
				begun = ended
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	var all []time.Duration
	for g := range goroutines {
		if errs[g] != nil {
			return nil, errs[g]
		}
		all = append(all, took[g]...)
	}
	return measure{
		"pairs/s": float64(len(all)) / elapsed.Seconds(),
		"p50":     float64(median(all)),
	}, nil
}

// pairRunners measure uncontended pairs of each contender in this process. stop closes what
// they opened. Connections, tables and scripts are created before the measurement.
func pairRunners(ctx context.Context, s setup, cs []contender, target string, goroutines int) (runners []runner, stop func(), err error) {
	var opened []locks
	stop = func() {
		for _, l := range opened {
			l.close()
		}
	}
	for _, c := range cs {
		l, err := c.open(target)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("%s: %w", c.name, err)
		}
		opened = append(opened, l)
		if _, err := pairs(ctx, l, goroutines, 0); err != nil {
			stop()
			return nil, nil, fmt.Errorf("%s: %w", c.name, err)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return pairs(ctx, l, goroutines, s.slice)
		}})
		if c.name == "holdfast" {
			// The cost of the context: this one cannot be canceled, so Lock need not be able to
			// return while the store hangs.
			runners = append(runners, runner{"holdfast, context.Background()", func(context.Context) (measure, error) {
				return pairs(context.Background(), l, goroutines, s.slice)
			}})
		}
	}
	return runners, stop, nil
}

// pairTitle is the title of a table of pairs.
func pairTitle(on string, goroutines int) string {
	if goroutines == 1 {
		return on + ": uncontended lock and unlock, 1 goroutine"
	}
	return fmt.Sprintf("%s: uncontended lock and unlock, %d goroutines, a name each", on, goroutines)
}

var pairColumns = []column{rate("pairs/s"), elapsed("p50")}

// uncontended prints a table of pairs for each number of goroutines.
func uncontended(ctx context.Context, s setup, title, reference string, cs []contender, target string, goroutines ...int) error {
	for _, n := range goroutines {
		runners, stop, err := pairRunners(ctx, s, cs, target, n)
		if err != nil {
			return err
		}
		err = rounds(ctx, s, pairTitle(title, n), reference, pairColumns, runners)
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}
