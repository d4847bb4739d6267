package recordtest

import (
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

// Counts are requests, by kind. Its methods are safe for concurrent use.
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

// each is how many there were for each of n, in all and by kind.
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

// CrowdSize is how many come at once in a test of a crowd: HOLDFAST_TEST_CROWD, or few.
func CrowdSize(few int) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_CROWD")); err == nil {
		return n
	}
	return few
}

// Crowd has n processes come at once for one name. open returns the store of each, on a client of
// its own. Each is in the lock for a millisecond, once. It fails if a Lock does, or if
// two are in it together, and returns how many requests there were for each lock, from the first
// request of a process on.
func Crowd(t *testing.T, n int, counts *Counts, open func(t *testing.T) store.Store) float64 {
	t.Helper()
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
		lease, err := l.Mutex("crowd").Lock(t.Context())
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		counts.forget()
	}
	var inside, failed atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for _, l := range lockers {
		all.Go(func() {
			lease, err := l.Mutex("crowd").Lock(t.Context())
			if err != nil {
				if failed.Add(1) == 1 {
					t.Errorf("Lock: %v", err)
				}
				return
			}
			if inside.Add(1) != 1 && lease.Valid() {
				t.Error("two are in it")
			}
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			if err := lease.Release(); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	each, kinds := counts.each(n)
	t.Logf("%d processes, %v: %d failed; %.1f requests a lock: %s", n, took.Round(time.Millisecond), failed.Load(), each, kinds)
	return each
}
