package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// contendingClients is how many clients in this process compete for one name, each with its own
// connections.
const contendingClients = 8

var contendedColumns = []column{
	rate("locks/s"), fraction("least/most a client"), elapsed("p50"), elapsed("longest wait"),
}

// contend has the goroutines of all clients take one name in turn for d.
func contend(ctx context.Context, all []locks, goroutines int, d time.Duration) (measure, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var waits []time.Duration
	var firstErr error
	share := make([]int, len(all))
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	start := time.Now()
	for i, l := range all {
		for range goroutines {
			wg.Go(func() {
				var own []time.Duration
				for time.Since(start) < d || len(own) == 0 {
					begun := time.Now()
					unlock, err := l.lock(ctx, "bench/hot")
					if err == nil {
						own = append(own, time.Since(begun))
						err = unlock()
					}
					if err != nil {
						mu.Lock()
						firstErr = err
						mu.Unlock()
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				waits, share[i] = append(waits, own...), share[i]+len(own)
			})
		}
	}
	wg.Wait()
	if firstErr != nil {
		return nil, firstErr
	}
	if len(waits) == 0 { // the machine stalled
		return measure{"locks/s": 0}, nil
	}
	slices.Sort(waits)
	return measure{
		"locks/s":             float64(len(waits)) / time.Since(start).Seconds(),
		"least/most a client": float64(slices.Min(share)) / float64(max(slices.Max(share), 1)),
		"p50":                 float64(waits[len(waits)/2]), "longest wait": float64(waits[len(waits)-1]),
	}, nil
}

// hotClients measures clients with one goroutine each that compete for one name.
func hotClients(ctx context.Context, s setup, title, reference string, cs []contender, target string) error {
	var runners []runner
	for _, c := range cs {
		all, err := openMany(c, target, contendingClients)
		defer closeAll(all)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if _, err := contend(ctx, all, 1, 0); err != nil { // creates connections and tables
			return fmt.Errorf("%s: %w", c.name, err)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return contend(ctx, all, 1, 4*s.slice)
		}})
	}
	return rounds(ctx, s, fmt.Sprintf("%s: one hot name, %d clients", title, contendingClients), reference, contendedColumns, runners)
}
