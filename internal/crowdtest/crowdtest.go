// Package crowdtest has many processes compete for one name all the time, on a store that they share. It checks that
// one of them holds it at a time and that tokens grow. The processes run the test's own binary.
package crowdtest

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
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
)

const env = "HOLDFAST_TEST_CROWD_AT"

// At returns where the store is, in a process of the crowd; it is empty in the test. TestMain checks it, and calls
// Work in a process of the crowd.
func At() string { return os.Getenv(env) }

// A stay is the time during which one process was sure to hold the lock, by the clock that all processes of the host
// share.
type stay struct{ token, from, to int64 }

// Stayed prints the stay of a process that had a lease from begin until now; if the lease is no longer valid, only
// until its deadline. It reports whether that is a positive time.
func Stayed(token int64, begin time.Duration, deadline time.Time, valid func() bool) bool {
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

// UntilEnded returns a context that ends when the test tells this process to end.
func UntilEnded() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	return ctx
}

// Work takes one name again and again until the test tells it to end, as users do, and prints its stays. About half
// of the processes have the shortest TTL of the store: on a busy machine the leases of all would expire before any of
// them runs.
func Work(s store.Store) error {
	ttl := s.Describe().MinTTL
	if os.Getpid()%2 == 0 {
		ttl *= 5
	}
	return ByLocker(UntilEnded(), s, ttl)
}

// ByLocker is Work with this TTL.
func ByLocker(ctx context.Context, s store.Store, ttl time.Duration) error {
	locks, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer locks.Close()
	for n := 0; ctx.Err() == nil; n++ {
		lease, err := locks.Mutex(Name).Lock(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
				return err
			}
			continue
		}
		// Read the deadline at once: for an expired lease, Deadline returns the instant at
		// which it is read.
		begin, deadline := clock.Boot(), lease.Deadline()
		had := lease.Valid()
		time.Sleep(time.Duration(n%7) * time.Millisecond)
		if had {
			Stayed(lease.Token(), begin, deadline, lease.Valid)
		}
		lease.Release()
	}
	return nil
}

// Name is the name that the processes compete for.
const Name = "hot"

// A Crowd has the processes and their stays.
type Crowd struct {
	t       *testing.T
	at      string
	lasts   time.Duration
	begun   time.Time
	reading sync.WaitGroup

	mu  sync.Mutex
	all []stay
}

// New returns a crowd without processes, for the store at this place. It lasts for three seconds, or for
// HOLDFAST_TEST_CROWD_FOR; a minute finds more.
func New(t *testing.T, at string) *Crowd {
	t.Helper()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_TEST_CROWD_FOR"), "3s"))
	if err != nil {
		t.Fatal(err)
	}
	return &Crowd{t: t, at: at, lasts: lasts, begun: time.Now()}
}

// Begin starts a process, and returns the function that ends it or kills it.
func (c *Crowd) Begin() (end func(kill bool)) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+c.at)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var killed atomic.Bool
	c.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var one stay
			if _, err := fmt.Sscan(lines.Text(), &one.token, &one.from, &one.to); err != nil {
				c.t.Errorf("%q: %v", lines.Text(), err)
			}
			c.mu.Lock()
			c.all = append(c.all, one)
			c.mu.Unlock()
		}
		if err := cmd.Wait(); err != nil && !killed.Load() {
			c.t.Errorf("a process of the crowd: %v", err)
		}
	})
	return func(kill bool) {
		if killed.Store(kill); kill {
			cmd.Process.Kill()
		}
		in.Close()
	}
}

// Had waits until this part of the crowd's time has passed and there were n stays.
func (c *Crowd) Had(n int, part float64) {
	c.t.Helper()
	time.Sleep(time.Until(c.begun.Add(time.Duration(part * float64(c.lasts)))))
	testwait.Until(c.t, fmt.Sprintf("the processes have held the lock %d times", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.all) >= n
	})
}

// Judge waits for the processes, which must have been told to end. It checks that one held the
// lock at a time, and that tokens grew.
func (c *Crowd) Judge() {
	c.t.Helper()
	c.reading.Wait()
	slices.SortFunc(c.all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(c.all); i++ {
		if before, now := c.all[i-1], c.all[i]; now.from < before.to || now.token <= before.token {
			c.t.Errorf("two holds overlap, or their tokens do not grow: %+v, then %+v", before, now)
		}
	}
	c.t.Logf("%d holds", len(c.all))
}

// Run has ten processes compete for the name until they have had it a hundred times.
func Run(t *testing.T, at string) {
	t.Helper()
	c := New(t, at)
	var ends []func(kill bool)
	for range 10 {
		ends = append(ends, c.Begin())
	}
	for n := 10; n <= 100; n += 10 { // in steps: a busy machine serves them slowly
		c.Had(n, 1)
	}
	for _, end := range ends {
		end(false)
	}
	c.Judge()
}
