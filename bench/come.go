package main

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"time"
)

// inLock is how long each of the clients that come at once holds the name.
const inLock = time.Millisecond

// openMany opens n clients, several at a time.
func openMany(c contender, target string, n int) ([]locks, error) {
	all := make([]locks, n)
	_, err := each(n, func(i int) (err error) {
		all[i], err = c.open(target)
		return err
	})
	return all, err
}

// closeAll closes the clients, all at the same time.
func closeAll(all []locks) {
	var wg sync.WaitGroup
	for _, l := range all {
		if l != nil {
			wg.Go(func() { l.close() })
		}
	}
	wg.Wait()
}

// come has each client lock the name at the instant at. It returns how many did not get it
// within the limit, when the last one got it, and the errors.
func come(all []locks, name string, at int64, limit time.Duration) (failed int, last int64, why []wrong) {
	var mu sync.Mutex // guards came; some clients are still running after the limit
	var came struct {
		had  int
		last int64
		why  []wrong
	}
	var wg sync.WaitGroup
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
				came.why = add(came.why, err)
				return
			}
			came.had, came.last = came.had+1, max(came.last, got)
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Duration(at-monotonic()) + limit + patience): // some contenders ignore their context
	}
	mu.Lock()
	defer mu.Unlock()
	return len(all) - came.had, came.last, slices.Clone(came.why)
}

// A wrong is an error and how often it occurred. Errors of other processes may have different
// texts.
type wrong struct {
	first error
	often int
}

var numbers = regexp.MustCompile(`[0-9]+`)

func add(all []wrong, err error) []wrong {
	kind := func(err error) string { return numbers.ReplaceAllString(err.Error(), "") }
	i := slices.IndexFunc(all, func(w wrong) bool { return kind(w.first) == kind(err) })
	if i < 0 {
		return append(all, wrong{err, 1})
	}
	all[i].often++
	return all
}
