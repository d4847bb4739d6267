// Package crowdtest has many processes want one name all the time, on a store that they share, and sees that one holds it at a time and that
// tokens grow. They are the test's own binary.
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

// At is where the store of a process of the crowd is; empty: this is the test. TestMain asks, and calls Work in a process of the crowd.
func At() string { return os.Getenv(env) }

// A stay is what one process saw of a hold: from when to when it was sure to have it, by the clock that all processes of the host share.
type stay struct{ token, from, to int64 }

// Stayed prints the stay of a process that had a lease from begin to now at most, and not for longer than until deadline, unless it is valid
// still. It reports whether that was any time.
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

// UntilEnded returns a context that ends when the test has seen enough of this process.
func UntilEnded() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	return ctx
}

// Work takes one name again and again until the test has seen enough, as users do, and prints its stays. About half of the processes have the
// shortest TTL there is: on a busy machine it expires for all before any of them is served.
func Work(s store.Store) error {
	ttl := s.Describe().MinTTL
	if os.Getpid()%2 == 0 {
		ttl *= 5
	}
	return ByLocker(UntilEnded(), s, ttl)
}

// ByLocker is Work with that TTL.
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
		// The deadline is read at once: that of an expired lease is the instant at which it is read.
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

// Name is what they want.
const Name = "hot"

// A Crowd is the processes, and what they have seen.
type Crowd struct {
	t       *testing.T
	at      string
	lasts   time.Duration
	begun   time.Time
	reading sync.WaitGroup

	mu  sync.Mutex
	all []stay
}

// New returns a crowd without a process, at that place. It lasts for three seconds, or for HOLDFAST_TEST_CROWD_FOR; a minute shows more.
func New(t *testing.T, at string) *Crowd {
	t.Helper()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_TEST_CROWD_FOR"), "3s"))
	if err != nil {
		t.Fatal(err)
	}
	return &Crowd{t: t, at: at, lasts: lasts, begun: time.Now()}
}

// Begin begins a process, and returns what ends it, or kills it.
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

// Had waits until that part of its time has passed and they have had the name so often.
func (c *Crowd) Had(n int, part float64) {
	c.t.Helper()
	time.Sleep(time.Until(c.begun.Add(time.Duration(part * float64(c.lasts)))))
	testwait.Until(c.t, fmt.Sprintf("they have had it %d times", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.all) >= n
	})
}

// Judge waits for the processes, which were ended: one held it at a time, and tokens grew.
func (c *Crowd) Judge() {
	c.t.Helper()
	c.reading.Wait()
	slices.SortFunc(c.all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(c.all); i++ {
		if before, now := c.all[i-1], c.all[i]; now.from < before.to || now.token <= before.token {
			c.t.Errorf("%+v and then %+v", before, now)
		}
	}
	c.t.Logf("%d holds", len(c.all))
}

// Run has ten processes want the name until they have had it a hundred times.
func Run(t *testing.T, at string) {
	t.Helper()
	c := New(t, at)
	var ends []func(kill bool)
	for range 10 {
		ends = append(ends, c.Begin())
	}
	for n := 10; n <= 100; n += 10 { // a busy machine serves them slowly
		c.Had(n, 1)
	}
	for _, end := range ends {
		end(false)
	}
	c.Judge()
}
