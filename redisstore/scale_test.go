package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// lockerOn returns a locker with a client of its own, and a counter of its round trips.
func lockerOn(t *testing.T, addr string, o holdfast.Options) (*holdfast.Locker, *roundTrips) {
	t.Helper()
	rdb, trips := redis.NewClient(&redis.Options{Addr: addr}), new(roundTrips)
	t.Cleanup(func() { rdb.Close() })
	rdb.AddHook(trips)
	s, err := redisstore.New(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	l, err := holdfast.New(s, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return l, trips
}

// each runs f for 0 to n-1 on several goroutines.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := g; i < n; i += 32 {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func take(t *testing.T, l *holdfast.Locker, n int) []*holdfast.Lease {
	t.Helper()
	leases := make([]*holdfast.Lease, n)
	each(t, n, func(i int) (err error) {
		leases[i], err = answered(t.Context(), l, i)
		return err
	})
	return leases
}

// answered locks the name of that number. It retries, as a server that has just started, or a busy machine, may not answer at first.
func answered(ctx context.Context, l *holdfast.Locker, i int) (*holdfast.Lease, error) {
	for begun := time.Now(); ; {
		lease, err := l.Mutex(fmt.Sprint("scale/", i)).Lock(ctx)
		if !errors.Is(err, holdfast.ErrUnavailable) || time.Since(begun) > testwait.Patience {
			return lease, err
		}
	}
}

// Ten thousand leases survive a server that is frozen for longer than the time to the next renewal of any of them. If it is frozen for longer
// than the TTL all leases are lost, each at its deadline, and none because of another. The bench measures how soon the loss is reported: under
// the race detector, on a busy machine, ten thousand goroutines take their time.
func TestScale_TenThousandLeasesWhileTheServerStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("this test holds ten thousand leases for more than a minute")
	}
	t.Parallel()
	const n, ttl, every = 10_000, 10 * time.Minute, 8 * time.Second // a busy machine takes long for so many
	server := testserver.Redis(t)
	here, _ := lockerOn(t, server.Addr, holdfast.Options{TTL: ttl, RenewEvery: every})
	leases := take(t, here, n)
	server.Freeze()
	frozen := time.Now()
	time.Sleep(every)
	server.Thaw()
	testwait.Until(t, "all leases are renewed after the stall", func() bool {
		for _, l := range leases {
			if !l.Valid() {
				t.Fatalf("%s was lost while the server stood still for %v of %v", l.Name(), every, ttl)
			}
			if !l.Deadline().After(frozen.Add(ttl)) {
				return false
			}
		}
		return true
	})

	each(t, n, released(leases))
	here, _ = lockerOn(t, server.Addr, holdfast.Options{TTL: 4 * every, RenewEvery: every})
	leases = take(t, here, n) // some of them may have expired already

	server.Freeze()
	defer server.Thaw()
	time.Sleep(every) // all earlier answers have been read: no deadline moves any more
	var late struct {
		latest, earliest atomic.Int64
		wg               sync.WaitGroup
	}
	for _, l := range leases {
		if !l.Valid() {
			continue
		}
		deadline := l.Deadline()
		late.wg.Add(1)
		context.AfterFunc(l.Context(context.Background()), func() {
			defer late.wg.Done()
			after := int64(time.Since(deadline))
			raise(&late.latest, after)
			raise(&late.earliest, -after)
		})
	}
	late.wg.Wait()
	for _, l := range leases {
		if l.Valid() {
			t.Fatalf("%s is still valid", l.Name())
		}
	}
	if early := time.Duration(late.earliest.Load()); early > time.Millisecond { // Deadline uses another clock
		t.Errorf("a lease was lost %v before its deadline", early)
	}
	latest := time.Duration(late.latest.Load())
	t.Logf("the latest loss came %v after its deadline", latest)
	if latest > time.Minute { // if each of ten thousand waited for something, the last would be later
		t.Errorf("a loss came %v after its deadline", latest)
	}
}

// Ten thousand leases, once each has been renewed, are renewed by a few writes. The engine renews the same leases together each time. After a
// late answer, or when the machine stalls, it writes some of them again, and then the few writes return.
func TestScale_TenThousandLeasesAreRenewedByAFewWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("this test holds ten thousand leases for half a minute")
	}
	t.Parallel()
	const n, ttl, every = 10_000, 10 * time.Minute, 8 * time.Second
	server := testserver.Redis(t)
	here, _ := lockerOn(t, server.Addr, holdfast.Options{TTL: ttl, RenewEvery: every})
	leases := take(t, here, n)
	renewed := func() {
		t.Helper()
		before := make([]time.Time, n)
		for i, l := range leases {
			before[i] = l.Deadline()
		}
		testwait.Until(t, "each lease is renewed", func() bool {
			for i, l := range leases {
				if !l.Valid() {
					t.Fatalf("%s was lost", l.Name())
				}
				if !l.Deadline().After(before[i]) {
					return false
				}
			}
			return true
		})
	}
	renewed()
	see := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: testwait.Patience})
	defer see.Close()
	begun := time.Now()
	for round := 1; ; round++ {
		before := commands(t, see)
		renewed()
		after := commands(t, see)
		few := true
		for _, name := range []string{"evalsha", "set", "mget"} {
			calls := after[name] - before[name]
			t.Logf("round %d, %s: %d", round, name, calls)
			few = few && calls <= n/100 // twenty, and twice that if one call was in two rounds
		}
		if few {
			break
		}
		if time.Since(begun) > 2*testwait.Patience {
			t.Fatalf("%d leases are still renewed by as many writes", n)
		}
	}
	// Release them here, as Close gives up after a few seconds. On a busy machine some releases may get no answer.
	each(t, n, released(leases))
}

// released releases one lease, and accepts that the release gets no answer.
func released(leases []*holdfast.Lease) func(i int) error {
	return func(i int) error {
		if err := leases[i].Release(); !errors.Is(err, holdfast.ErrUnavailable) {
			return err
		}
		return nil
	}
}

// raise makes v at least n.
func raise(v *atomic.Int64, n int64) {
	for have := v.Load(); n > have && !v.CompareAndSwap(have, n); have = v.Load() {
	}
}

// A thousand waiters for as many names that are held elsewhere share one subscription. Each asks again for its position a third of the
// position's time after the last ask, or up to a tenth of that sooner to share a batch with others. Nothing else is sent. After a late answer
// a waiter asks again, and a machine that stalls makes it ask late: such a period does not count.
func TestScale_AThousandWaitersOnlyKeepPositionsInBatches(t *testing.T) {
	t.Parallel()
	const n, third = 1000, store.MaxPositionTTL / 3
	server := testserver.Redis(t)
	here, _ := lockerOn(t, server.Addr, holdfast.Options{TTL: time.Hour})
	leases := take(t, here, n)
	locks, trips := lockerOn(t, server.Addr, holdfast.Options{TTL: 3 * third})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := answered(ctx, locks, i); !errors.Is(err, holdfast.ErrHeld) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	see := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: testwait.Patience})
	defer see.Close()
	testwait.Until(t, "all claims have a position", func() bool { return commands(t, see)["evalsha"] >= 3*n }) // a lock, a try and a position each

	var asks, batches int
	var took time.Duration
	var before, after map[string]int
	testwait.Until(t, "each waiter asks four times, and none too soon", func() bool {
		late, sent, start := trips.late.Load(), trips.n.Load(), time.Now()
		before = commands(t, see)
		testwait.Until(t, "each waiter has asked four times", func() bool {
			after = commands(t, see)
			asks = after["evalsha"] - before["evalsha"]
			return asks >= 4*n
		})
		took, batches = time.Since(start), int(trips.n.Load()-sent)
		t.Logf("%d asks in %v, %d round trips, %d answers late", asks, took, batches, trips.late.Load()-late)
		return trips.late.Load() == late && asks <= n*(int(took/(third*9/10))+1)
	})
	if batches > asks/10 {
		t.Errorf("%d asks took %d round trips, want at most a tenth", asks, batches)
	}
	expected := []string{
		"evalsha", "mget", "exists", "set", "time", "publish", // our commands, and those that our scripts call
		"info",                                         // the test's command
		"ping", "hello", "client|setinfo", "subscribe", // the client's, on a connection that is idle or new
	}
	for name, calls := range after {
		if calls > before[name] && !slices.Contains(expected, name) {
			t.Errorf("got %d calls of %s", calls-before[name], name)
		}
	}
	clients, err := see.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(clients, "id="); n != 1 && strings.Count(strings.TrimSpace(clients), "\n") != 0 {
		t.Errorf("got %d subscription connections:\n%s", n, clients)
	}
	cancel()
	wg.Wait()
	each(t, n, released(leases)) // as Close gives up after a few seconds
}

// roundTrips counts what a client sends, a pipeline as one, and how many of them got no answer within a second.
type roundTrips struct{ n, late atomic.Int64 }

func (t *roundTrips) count(send func() error) error {
	t.n.Add(1)
	begun := time.Now()
	err := send()
	if err != nil || time.Since(begun) > time.Second {
		t.late.Add(1)
	}
	return err
}

func (t *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return t.count(func() error { return next(ctx, cmd) })
	}
}

func (t *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return t.count(func() error { return next(ctx, cmds) })
	}
}

// commands returns how often the server has run each command.
func commands(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		var n int
		if _, err := fmt.Sscanf(rest, "%d,", &n); ok && err == nil {
			all[name] = n
		}
	}
	return all
}
