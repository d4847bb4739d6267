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
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/memstore"
)

// scale holds many leases at once in this process, on each store, and reports their cost: first what the first
// renewal writes, which may move a lease into a session; then the cost over a whole TTL. Then it reports what happens
// to the leases while a server is frozen, and the cost of as many waiters.
func scale(ctx context.Context, s setup) error {
	s.rounds = 1
	all := table{columns: scaleColumns, all: map[string][]measure{}}
	all.title = fmt.Sprintf("%d leases held at once, TTL %v, for a whole TTL after each was renewed", s.held, s.ttl)
	hold := func(s setup, store string, c contender, target string, count counter) error {
		m, err := holdMany(ctx, s, c, target, count)
		if err != nil {
			return err
		}
		one := all
		one.runners = []runner{{name: "holdfast, " + store}}
		all.runners = append(all.runners, one.runners...)
		all.all["holdfast, "+store] = []measure{m}
		return s.writeRows(&one)
	}
	inMemory := onStore(func(_ string, o *holdfast.Options) (ours, error) { return oursOn(memstore.New(), nil, o, nil) })
	err := hold(s, "memory", inMemory, "", nil)
	if err == nil {
		err = eachStore(s, func(on served) error {
			return on.during(ctx, func(at running) error {
				c, count := on.all[0], at.count
				if on.name == "redis" {
					c, count = countTrips(count)
				}
				return hold(s.at(at.server), on.title, c, at.target, count)
			})
		})
	}
	fmt.Fprintf(s.out, "\n%s\n", all.title)
	if err := errors.Join(err, all.print(s.out)); err != nil || !s.wants("redis") {
		return err
	}
	server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr}) // the bench's own client, not the measured locker's
	defer rdb.Close()
	if err := frozen(ctx, s, server, rdb); err != nil {
		return err
	}
	return waiters(ctx, s, rdb, server.Addr)
}

var scaleColumns = []column{
	{name: "heap a lease", unit: "B", better: less, print: count},
	{name: "goroutines more", better: less, print: count},
	{name: "lost", better: less, print: count},
	{name: "requests/s", unit: "1/s", better: less, print: tenths},
	{name: "writes/s", unit: "1/s", better: less, print: tenths},
	cost("first renewal, writes a lease", ""),
	{name: "round trips/s", unit: "1/s", better: less, print: tenths},
	{name: "÷ one a renewal", better: less, print: asRatio},
	{name: "processor", unit: "%", better: less, print: tenths},
	elapsed("latest renewal"), elapsed("take all"), elapsed("give all back"),
}

// quiet is for errors that are certain to happen.
var quiet = slog.New(slog.DiscardHandler)

// trips are round trips. A pipeline is one round trip.
const trips = "round trips"

// countTrips returns holdfast on Redis, with a client that counts its round trips.
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

// holdMany measures one row: many held leases.
func holdMany(ctx context.Context, s setup, c contender, target string, count counter) (measure, error) {
	var latest atomic.Int64 // how late a renewal was, at most
	l, err := c.with(target, &holdfast.Options{TTL: s.ttl, Logger: quiet, Observer: func(e holdfast.Event) {
		for e.Kind == holdfast.EventRenewed {
			have := latest.Load()
			if int64(e.After) <= have || latest.CompareAndSwap(have, int64(e.After)) {
				return
			}
		}
	}})
	if err != nil {
		return nil, err
	}
	defer l.close()
	// Take one lease first, so that one-time costs are not counted.
	first, err := l.Mutex("bench/first").Lock(ctx)
	if err != nil {
		return nil, err
	}
	bytes, goroutines := heap(), runtime.NumGoroutine()
	leases, took, err := takeAll(ctx, l.Locker, s.held)
	if err != nil {
		return nil, err
	}
	begun, err := count.during(ctx, c, func() error { return sleep(ctx, s.ttl/2) })
	if err != nil {
		return nil, err
	}
	busy := processor()
	start := time.Now()
	costs, err := count.during(ctx, c, func() error { return sleep(ctx, s.ttl) })
	if err != nil {
		return nil, err
	}
	seconds := time.Since(start).Seconds()
	share := (processor() - busy).Seconds() / seconds
	lost := countLost(leases)
	moreBytes, moreGoroutines := heap()-bytes, runtime.NumGoroutine()-goroutines
	gave, err := giveAll(leases)
	if err != nil {
		return nil, err
	}
	if _, err := giveAll([]*holdfast.Lease{first}); err != nil {
		return nil, err
	}
	m := measure{
		"heap a lease": float64(moreBytes / int64(s.held)), "goroutines more": float64(moreGoroutines), "lost": float64(lost),
		"processor": 100 * share, "latest renewal": float64(latest.Load()), "take all": float64(took), "give all back": float64(gave),
	}
	for _, what := range []string{requests, writes, trips} {
		if n, ok := costs[what]; ok {
			m[what+"/s"] = n / seconds
		}
	}
	if n := cmp.Or(costs[trips], costs[requests]); n > 0 {
		m["÷ one a renewal"] = n / seconds / (float64(s.held) / (s.ttl / 3).Seconds())
	}
	if n, ok := begun[writes]; ok {
		m["first renewal, writes a lease"] = n / float64(s.held)
	}
	return m, nil
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
			return nil // already counted, or the machine stalled
		}
		return err
	})
}

// frozen freezes the server for half of the TTL, in which no lease may be lost, and then for
// twice the TTL, in which all must be lost, each at its deadline. A bare timer for each
// deadline shows how late any timer is on this machine.
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
	if err := sleep(ctx, s.ttl/2); err != nil { // earlier answers have been read, so deadlines no longer move
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

// waiters waits with one goroutine for each of many names that are held elsewhere.
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
	if err := sleep(ctx, s.ttl); err != nil { // all have a position, and have renewed it
		return err
	}
	var mailboxes []string
	if err := eventually(ctx, "a claim waits", func() bool {
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

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // every kernel has this call
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// each runs f for 0 to n-1 on 64 goroutines and returns how long that took.
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
