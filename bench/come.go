package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// inLock is how long each of those who come at once has the name.
const inLock = time.Millisecond

// openMore opens clients until there are n, some at a time.
func openMore(c contender, target string, have []locks, n int) ([]locks, error) {
	all := append(have, make([]locks, max(n-len(have), 0))...)
	_, err := each(len(all)-len(have), func(i int) (err error) {
		all[len(have)+i], err = c.open(target)
		return err
	})
	return all, err
}

// closeAll closes them, all at the same time.
func closeAll(all []locks) {
	var wg sync.WaitGroup
	for _, l := range all {
		if l != nil {
			wg.Go(func() { l.close() })
		}
	}
	wg.Wait()
}

// come has each client lock the name at the instant, and tells how many of them
// did not get it within the limit and when the last got it. What went wrong is
// told on stderr, each thing once.
func come(all []locks, name string, at int64, limit time.Duration) (failed int, last int64) {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		had  int
		told = map[string]int{}
	)
	for _, l := range all {
		wg.Go(func() {
			time.Sleep(time.Duration(at - monotonic()))
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			unlock, err := l.lock(ctx, name)
			got := monotonic()
			if err == nil {
				time.Sleep(inLock)
				err = unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				told[err.Error()]++
				return
			}
			had, last = had+1, max(last, got)
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Duration(at-monotonic()) + limit + patience): // some heed no context
	}
	mu.Lock()
	defer mu.Unlock()
	for why, n := range told {
		fmt.Fprintf(os.Stderr, "bench: %d of %d: %s\n", n, len(all), why)
	}
	return len(all) - had, last
}
