package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/memstore"
)

// scale holds many leases at once in this process, until each has been renewed and then
// for a whole TTL, and tells what they cost, on each store: what the first renewal writes, which may move
// a lease into a session, by itself; then what becomes of
// them while a server is frozen; then what as many waiters cost.
func scale(ctx context.Context, s setup) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\theap a lease\tgoroutines more\tlost\trequests/s\twrites/s\tfirst renewal, writes a lease\tround trips/s\t÷ one a renewal\tprocessor\tlatest renewal\ttake all\tgive all back\t")
	inMemory := onStore(func(_ string, o *holdfast.Options) (ours, error) { return oursOn(memstore.New(), nil, o, nil) })
	err := holdMany(ctx, s, "memory", inMemory, "", nil, w)
	if err == nil {
		err = eachStore(s, func(on served) error {
			return on.during(ctx, func(at running) error {
				c, count := on.all[0], at.count
				if on.name == "redis" {
					c, count = countTrips(count)
				}
				return holdMany(ctx, s, on.title, c, at.target, count, w)
			})
		})
	}
	fmt.Fprintf(s.out, "\n%d leases held at once, TTL %v, for a whole TTL after each was renewed\n", s.held, s.ttl)
	if err := errors.Join(err, w.Flush()); err != nil || !s.wants("redis") {
		return err
	}
	server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr}) // ours, not theirs
	defer rdb.Close()
	if err := frozen(ctx, s, server, rdb); err != nil {
		return err
	}
	return waiters(ctx, s, rdb, server.Addr)
}

// quiet is for what is bound to happen.
var quiet = slog.New(slog.DiscardHandler)

// trips are round trips: a pipeline is one.
const trips = "round trips"

// countTrips is holdfast on Redis, on a client that counts its round trips.
func countTrips(count counter) (contender, counter) {
	var n roundTrips
	c := onStore(func(addr string, o *holdfast.Options) (ours, error) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		rdb.AddHook(&n)
		return oursOnClient(rdb, o)
	}, oursInRedis...)
	return c, func(ctx context.Context, c contender) (measure, error) {
		m, err := count(ctx, c)
		if err == nil {
			m[trips] = float64(n.n.Load())
		}
		return m, err
	}
}

type roundTrips struct{ n atomic.Int64 }

func (t *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.n.Add(1); return next(ctx, cmd) }
}

func (t *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.n.Add(1); return next(ctx, cmds) }
}

// holdMany adds a row to the table.
func holdMany(ctx context.Context, s setup, title string, c contender, target string, count counter, w *tabwriter.Writer) error {
	var latest atomic.Int64 // by how much a renewal was late, at most
	l, err := c.with(target, &holdfast.Options{TTL: s.ttl, Logger: quiet, Observer: func(e holdfast.Event) {
		for e.Kind == holdfast.EventRenewed {
			have := latest.Load()
			if int64(e.After) <= have || latest.CompareAndSwap(have, int64(e.After)) {
				return
			}
		}
	}})
	if err != nil {
		return err
	}
	defer l.close()
	// One lease first, for what is made once.
	first, err := l.Mutex("bench/first").Lock(ctx)
	if err != nil {
		return err
	}
	bytes, goroutines := heap(), runtime.NumGoroutine()
	leases, took, err := takeAll(ctx, l.Locker, s.held)
	if err != nil {
		return err
	}
	begun, err := count.during(ctx, c, func() error { return sleep(ctx, s.ttl/2) })
	if err != nil {
		return err
	}
	busy := processor()
	start := time.Now()
	costs, err := count.during(ctx, c, func() error { return sleep(ctx, s.ttl) })
	if err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	share := (processor() - busy).Seconds() / seconds
	lost := countLost(leases)
	moreBytes, moreGoroutines := heap()-bytes, runtime.NumGoroutine()-goroutines
	gave, err := giveAll(leases)
	if err != nil {
		return err
	}
	if _, err := giveAll([]*holdfast.Lease{first}); err != nil {
		return err
	}
	rate := func(what string) string {
		if n, ok := costs[what]; ok {
			return fmt.Sprintf("%.1f", n/seconds)
		}
		return "-"
	}
	fewer := "-"
	if n := cmp.Or(costs[trips], costs[requests]); n > 0 {
		fewer = fmt.Sprintf("%.2g", n/seconds/(float64(s.held)/(s.ttl/3).Seconds()))
	}
	atFirst := "-"
	if n, ok := begun[writes]; ok {
		atFirst = fmt.Sprintf("%.2f", n/float64(s.held))
	}
	fmt.Fprintf(w, "holdfast, %s\t%d B\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%s\t%s\t%s\t\n", title, moreBytes/int64(s.held), moreGoroutines, lost,
		rate(requests), rate(writes), atFirst, rate(trips), fewer, 100*share, time.Duration(latest.Load()).Round(time.Millisecond),
		took.Round(time.Millisecond), gave.Round(time.Millisecond))
	return nil
}

func takeAll(ctx context.Context, l *holdfast.Locker, n int) (leases []*holdfast.Lease, took time.Duration, err error) {
	leases = make([]*holdfast.Lease, n)
	took, err = each(n, func(i int) (err error) {
		leases[i], err = l.Mutex(fmt.Sprintf("bench/%06d", i)).Lock(ctx)
		return err
	})
	return leases, took, err
}

func countLost(leases []*holdfast.Lease) (n int) {
	for _, l := range leases {
		if !l.Valid() {
			n++
		}
	}
	return n
}

func giveAll(leases []*holdfast.Lease) (time.Duration, error) {
	return each(len(leases), func(i int) error {
		err := leases[i].Release()
		if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrUnavailable) {
			return nil // counted already, or the machine stood still
		}
		return err
	})
}

// frozen stops the server for half of the TTL, in which no lease may be lost,
// and then for twice the TTL: then all are, each at its deadline. A bare timer
// set for the same instant tells how late this machine is with any.
func frozen(ctx context.Context, s setup, server *testserver.Server, rdb *redis.Client) error {
	var mu sync.Mutex
	lostAt := map[string]time.Time{}
	l, err := newOnRedis(rdb, &holdfast.Options{TTL: s.ttl, Logger: quiet, Observer: func(e holdfast.Event) {
		if e.Kind == holdfast.EventLost {
			mu.Lock()
			defer mu.Unlock()
			lostAt[e.Name] = time.Now()
		}
	}})
	if err != nil {
		return err
	}
	defer l.Close()
	leases, _, err := takeAll(ctx, l, s.held)
	if err != nil {
		return err
	}
	server.Freeze()
	defer server.Thaw()
	if err := sleep(ctx, s.ttl/2); err != nil {
		return err
	}
	server.Thaw()
	if err := sleep(ctx, s.ttl); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nThe server frozen for half of the TTL: %d of %d lost\n", countLost(leases), s.held)
	server.Freeze()
	if err := sleep(ctx, s.ttl/2); err != nil { // what was answered before has been read, and no deadline moves any more
		return err
	}
	deadlines, bare := make([]time.Time, s.held), make([]atomic.Int64, s.held)
	for i, lease := range leases {
		deadlines[i] = lease.Deadline()
		time.AfterFunc(time.Until(deadlines[i]), func() { bare[i].Store(int64(time.Since(deadlines[i]))) })
	}
	if err := sleep(ctx, s.ttl*3/2); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	var latest, latestBare, worst time.Duration
	for i, lease := range leases {
		late, timer := lostAt[lease.Name()].Sub(deadlines[i]), time.Duration(bare[i].Load())
		latest, latestBare, worst = max(latest, late), max(latestBare, timer), max(worst, late-timer)
	}
	fmt.Fprintf(s.out, "for twice the TTL: %d of %d lost; the latest %v after its deadline, the latest bare timer %v; at most %v later than the bare timer of the same instant\n",
		countLost(leases), s.held, latest.Round(time.Microsecond), latestBare.Round(time.Microsecond), worst.Round(time.Microsecond))
	return nil
}

// waiters waits with a goroutine for each of many names that are held
// elsewhere.
func waiters(ctx context.Context, s setup, rdb *redis.Client, addr string) error {
	n := max(s.held/10, 1)
	elsewhere, err := newOnRedis(rdb, &holdfast.Options{TTL: time.Hour})
	if err != nil {
		return err
	}
	defer elsewhere.Close()
	held, _, err := takeAll(ctx, elsewhere, n)
	if err != nil {
		return err
	}
	c, counted := countTrips(countRedis(rdb))
	l, err := c.with(addr, &holdfast.Options{TTL: s.ttl})
	if err != nil {
		return err
	}
	defer l.close()
	before := heap()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, lease := range held {
		wg.Go(func() { l.Mutex(lease.Name()).Lock(waiting) })
	}
	if err := sleep(ctx, s.ttl); err != nil { // all have a position, and have kept it
		return err
	}
	var mailboxes []string
	if err := eventually(ctx, "somebody waits", func() bool {
		mailboxes, err = rdb.Do(ctx, "pubsub", "channels").StringSlice()
		return err != nil || len(mailboxes) > 0
	}); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	bytes := (heap() - before) / int64(n)
	start := time.Now()
	costs, err := counted.during(ctx, c, func() error { return sleep(ctx, s.ttl) })
	if err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	third := min(s.ttl, 10*time.Second).Seconds() / 3
	fmt.Fprintf(s.out, "\n%d goroutines that wait for as many names held elsewhere: %d B of heap each with their stacks not counted, %d subscription, "+
		"%.2f commands for each name in a third of its position's time, %.1f round trips/s\n",
		n, bytes, len(mailboxes), costs[requests]/seconds*third/float64(n), costs[trips]/seconds)
	stop()
	wg.Wait()
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// processor is how long this process has kept processors busy.
func processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // no such kernel
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
