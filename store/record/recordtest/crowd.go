package recordtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Counts counts requests by kind. Its methods are safe for concurrent use.
type Counts struct {
	mu sync.Mutex
	of map[string]int
}

// Add counts a request.
func (c *Counts) Add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[kind]++
}

func (c *Counts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.of)
}

// each returns how many requests there were for each of n, in all and by kind.
func (c *Counts) each(n int) (all float64, kinds string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.of)) {
		one := float64(c.of[kind]) / float64(n)
		all += one
		parts = append(parts, fmt.Sprintf("%s %.2f", kind, one))
	}
	return all, strings.Join(parts, ", ")
}

// CrowdSize is the number of processes in a test of a crowd: HOLDFAST_TEST_CROWD, or few.
func CrowdSize(few int) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_CROWD")); err == nil {
		return n
	}
	return few
}

// Crowd has n processes ask for one name at once. open returns the store of each, on a client of its own. Each holds
// the lock once, for a millisecond. Crowd fails if two hold it together. It returns how many requests there were for
// each lock, from the first request of a process on, and how many calls had no answer in time, as happens on a
// machine that is too slow; those processes ask again.
func Crowd(t *testing.T, n int, counts *Counts, open func(t *testing.T) store.Store) (each float64, unanswered int) {
	t.Helper()
	var failed atomic.Int64
	lock := func(l *holdfast.Locker) (lease *holdfast.Lease, err error) {
		for lease, err = l.Mutex("crowd").Lock(t.Context()); errors.Is(err, holdfast.ErrUnavailable); lease, err = l.Mutex("crowd").Lock(t.Context()) {
			failed.Add(1)
		}
		return lease, err
	}
	release := func(lease *holdfast.Lease) error {
		err := lease.Release()
		if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost) {
			failed.Add(1)
			return nil
		}
		return err
	}
	var lockers []*holdfast.Locker
	for i := range n + 1 {
		s := open(t)
		l, err := holdfast.New(s, &holdfast.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			l.Close()
			s.Close()
		})
		if i > 0 {
			lockers = append(lockers, l)
			continue
		}
		// The first has used the name before, so that nothing has to be set up.
		lease, err := lock(l)
		if err == nil {
			err = release(lease)
		}
		if err != nil {
			t.Fatal(err)
		}
		counts.forget()
		failed.Store(0)
	}
	var inside atomic.Pointer[holdfast.Lease]
	var all sync.WaitGroup
	begin := time.Now()
	for _, l := range lockers {
		all.Go(func() {
			lease, err := lock(l)
			if err != nil {
				t.Errorf("Lock: %v", err)
				return
			}
			if other := inside.Swap(lease); other != nil && other.Valid() && lease.Valid() {
				t.Error("two processes hold the lock")
			}
			time.Sleep(time.Millisecond)
			inside.CompareAndSwap(lease, nil)
			if err := release(lease); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	each, kinds := counts.each(n)
	unanswered = int(failed.Load())
	t.Logf("%d processes, %v: %d not answered; %.1f requests a lock: %s", n, took.Round(time.Millisecond), unanswered, each, kinds)
	return each, unanswered
}
