package pgstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// workerEnv has the URL of the store of a process of the crowd.
const workerEnv = "HOLDFAST_TEST_POSTGRES_WORKER"

// A stay is what one process saw of a hold: from when to when it was sure to
// have it, by the clock that all processes of the host share.
type stay struct{ token, from, to int64 }

// tell prints the stay of who had a lease from begin to now at most, and not for
// longer than until deadline, unless it is valid still. It reports whether that was
// any time.
func tell(token int64, begin time.Duration, deadline time.Time, valid func() bool) bool {
	end := clock.Boot()
	if !valid() {
		end += min(0, time.Until(deadline))
	}
	if end <= begin {
		return false
	}
	fmt.Println(token, int64(begin), int64(end))
	return true
}

// worker takes one name again and again until its standard input ends, and
// prints its stays. Processes take turns in how they come to it.
func worker(url string) error {
	s, err := Open(url, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	if os.Getpid()%2 == 0 {
		return byLocker(ctx, s)
	}
	return byClaims(ctx, s)
}

// crowdTTL is short, and long enough that a busy machine serves somebody before it has lapsed for all.
const crowdTTL = 5 * minTTL

// byLocker takes the name as users do, woken by notifications.
func byLocker(ctx context.Context, s *Store) error {
	locks, err := holdfast.New(s, &holdfast.Options{TTL: crowdTTL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer locks.Close()
	for n := 0; ctx.Err() == nil; n++ {
		lease, err := locks.Mutex("hot").Lock(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
				return err
			}
			continue
		}
		// The deadline is read at once: of a lease that is over it is the instant at
		// which it is read, however long ago that was.
		begin, deadline := clock.Boot(), lease.Deadline()
		had := lease.Valid()
		time.Sleep(time.Duration(n%7) * time.Millisecond)
		if had {
			tell(lease.Token(), begin, deadline, lease.Valid)
		}
		lease.Release()
	}
	return nil
}

// never is of what is valid until its deadline and no longer.
func never() bool { return false }

// byClaims takes the name as nobody should: it polls, renews late, and leaves
// one hold of eleven to its TTL, as if it had crashed.
func byClaims(ctx context.Context, s *Store) error {
	for n := 0; ctx.Err() == nil; n++ {
		c := mutex("hot")
		c.TTL, c.PositionTTL = crowdTTL, crowdTTL
		h := store.Hold{Name: c.Name, TTL: c.TTL}
		var ends store.Instant // as the engine counts: from before the ask, or from when its session was renewed
		for h.Token == 0 {
			sent := store.Now()
			a, err := s.Ask(ctx, c)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, store.ErrLost):
				c.ID = me.NewID() // the place lapsed
			case errors.Is(err, store.ErrUnavailable): // as on a busy machine: the same is asked for again
			case err != nil:
				return err
			case a.Granted:
				h.ID, h.Token, ends = c.ID, a.Token, cmp.Or(a.From, sent).Add(a.TTL)
			default:
				time.Sleep(min(a.Until, 5*time.Millisecond))
			}
		}
		begin := clock.Boot()
		for range n % 3 {
			time.Sleep(time.Duration(n%7) * time.Millisecond)
			sent := store.Now()
			if r := s.Renew(ctx, []store.Hold{h})[0]; r.Err == nil && store.Now() < ends {
				ends = max(ends, cmp.Or(r.From, sent).Add(r.TTL))
			}
		}
		if tell(h.Token, begin, time.Now().Add(ends.Sub(store.Now())), never) && n%11 == 10 {
			continue
		}
		s.Release(context.WithoutCancel(ctx), h)
	}
	return nil
}

// crowdFor is how long the crowd fights for one name; a minute tells more.
func crowdFor(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_TEST_CROWD_FOR"), "3s"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Ten processes want one name, with a short TTL; some of them
// are killed on the way, and others come. HOLDFAST_TEST_CROWD_FOR is for how long.
func TestNeverTwoOfManyProcessesHoldANameAndTokensGrow(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "max_connections=200")
	s := tableOn(t, poolOn(t, server.Addr), nil)
	defer s.Close()
	mustHold(t, s, mutex("the table is made"))
	var mu sync.Mutex
	var all []stay
	var readers sync.WaitGroup
	begin := func() (end func(kill bool)) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+testserver.PostgresURL(server.Addr))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var killed atomic.Bool
		readers.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var one stay
				if _, err := fmt.Sscan(lines.Text(), &one.token, &one.from, &one.to); err != nil {
					t.Errorf("%q: %v", lines.Text(), err)
				}
				mu.Lock()
				all = append(all, one)
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil && !killed.Load() {
				t.Errorf("a worker: %v", err)
			}
		})
		return func(kill bool) {
			if killed.Store(kill); kill {
				cmd.Process.Kill()
			}
			in.Close()
		}
	}
	begun := time.Now()
	had := func(n int, after time.Duration) {
		t.Helper()
		time.Sleep(time.Until(begun.Add(after)))
		until(t, fmt.Sprintf("they have had it %d times", n), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(all) >= n
		})
	}
	var ends []func(kill bool)
	for range 10 {
		ends = append(ends, begin())
	}
	had(10, crowdFor(t)/2)
	for i := range ends[:3] {
		ends[i](true)
		ends[i] = begin()
	}
	had(20, crowdFor(t))
	for _, end := range ends {
		end(false)
	}
	readers.Wait()
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(all); i++ {
		if before, now := all[i-1], all[i]; now.from < before.to || now.token <= before.token {
			t.Errorf("%+v and then %+v", before, now)
		}
	}
	t.Logf("%d holds", len(all))
}
