package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// scale holds many leases at once in this process for a whole TTL, in which
// each is renewed, and tells what they cost.
func scale(ctx context.Context, s setup) error {
	addr, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()

	fmt.Fprintf(s.out, "\n%d leases held at once, TTL %v, after a whole TTL\n", s.held, s.ttl)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\theap a lease\tgoroutines more\tlost\tcommands a second\ttake all\tgive all back\t")
	for _, c := range []struct {
		name string
		open func() (*holdfast.Locker, error)
	}{
		{"holdfast, memory", func() (*holdfast.Locker, error) {
			return holdfast.New(memstore.New(), &holdfast.Options{TTL: s.ttl})
		}},
		{"holdfast, Redis", func() (*holdfast.Locker, error) {
			return newOnRedis(rdb, &holdfast.Options{TTL: s.ttl})
		}},
	} {
		l, err := c.open()
		if err != nil {
			return err
		}
		err = hold(ctx, s, c.name, l, rdb, w)
		l.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return w.Flush()
}

func hold(ctx context.Context, s setup, name string, l *holdfast.Locker, rdb *redis.Client, w *tabwriter.Writer) error {
	// One lease first, for what is made once.
	first, err := l.Mutex("bench/first").Lock(ctx)
	if err != nil {
		return err
	}
	bytes, goroutines := heap(), runtime.NumGoroutine()
	leases := make([]*holdfast.Lease, s.held)
	took, err := each(s.held, func(i int) (err error) {
		leases[i], err = l.Mutex(fmt.Sprintf("bench/%06d", i)).Lock(ctx)
		return err
	})
	if err != nil {
		return err
	}
	inner := onRedis[0].inner
	before, err := sent(ctx, rdb, inner)
	if err != nil {
		return err
	}
	start := time.Now()
	select {
	case <-time.After(s.ttl):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := sent(ctx, rdb, inner)
	if err != nil {
		return err
	}
	commands := float64(after-before) / time.Since(start).Seconds()
	lost := 0
	for _, lease := range leases {
		if !lease.Valid() {
			lost++
		}
	}
	moreBytes, moreGoroutines := heap()-bytes, runtime.NumGoroutine()-goroutines
	gave, err := each(s.held, func(i int) error {
		if err := leases[i].Release(); !errors.Is(err, holdfast.ErrLost) {
			return err
		}
		return nil // counted already
	})
	if err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\t%d B\t%d\t%d\t%.1f\t%s\t%s\t\n", name, moreBytes/int64(s.held), moreGoroutines, lost, commands,
		took.Round(time.Millisecond), gave.Round(time.Millisecond))
	return nil
}

// each runs f for 0 to n-1 on 64 goroutines and tells how long that took.
func each(n int, f func(i int) error) (time.Duration, error) {
	const goroutines = 64
	errs := make([]error, goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += goroutines {
				errs[g] = f(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
