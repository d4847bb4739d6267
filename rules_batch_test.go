package holdfast

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// Ten thousand leases are renewed in one call for each batch, and no goroutine
// runs in between.
func TestLeasesAreRenewedInBatches(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s := newLink(t)
		locks := locker(t, s, nil)
		before := goroutines(t)
		for i := range n {
			lock(t, locks, fmt.Sprint(i))
			synctest.Wait() // until the goroutine of the ask is idle: the next ask would else get another
		}
		if more := runtime.NumGoroutine() - before; more > 2 {
			t.Fatalf("%d more goroutines for %d leases, want at most 2", more, n)
		}
		for round := 1; round <= 6; round++ {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			calls := s.made("renew")
			same(t, "calls", len(calls), round*10) // a thousand leases a call
			var holds int
			for _, c := range calls {
				holds += len(c.holds)
			}
			same(t, "holds renewed", holds, round*n)
		}
	})
}

// Leases granted at different times are renewed together if that is only a
// little early for some.
func TestAHoldThatIsNearlyDueJoinsTheBatch(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		for i := range 500 {
			lock(t, locks, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		same(t, "calls", len(s.made("renew")), 1)
		same(t, "holds renewed", len(s.made("renew")[0].holds), 500)
	})
}

// Leases that were renewed in one call stay in one call, also if some calls wait for others: a store can
// renew such a group by one write.
func TestHoldsRenewedTogetherStayTogether(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		const n = 5500 // in six calls, more than are under way at a time
		s := newLink(t)
		locks := locker(t, s, nil)
		for i := range n {
			lock(t, locks, fmt.Sprint(i))
		}
		s.on(func(c *call) fate {
			return fate{there: time.Duration(1+c.n%3) * 20 * time.Millisecond, back: time.Duration(c.n%7) * time.Millisecond}
		})
		rounds := map[string]bool{}
		time.Sleep(5 * time.Second) // no call is under way when we look
		for range 20 {
			before := len(s.made("renew"))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			var sets []string
			for _, c := range s.made("renew")[before:] {
				var ids []string
				for _, h := range c.holds {
					ids = append(ids, h.ID.String())
				}
				slices.Sort(ids)
				sets = append(sets, fmt.Sprintf("%d %x", len(ids), sha256.Sum256([]byte(strings.Join(ids, "")))))
			}
			slices.Sort(sets)
			rounds[strings.Join(sets, "\n")] = true
		}
		if len(rounds) != 1 {
			t.Errorf("in twenty rounds the leases were renewed in %d different sets of calls, want 1", len(rounds))
		}
	})
}

func TestGoroutinesStayFewWhileTheStoreHangs(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s := newLink(t)
		locks := locker(t, s, nil)
		before := runtime.NumGoroutine()
		var leases []*Lease
		for i := range n {
			leases = append(leases, lock(t, locks, fmt.Sprint(i)))
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		start := time.Now()
		hang := make(chan struct{})
		s.on(func(*call) fate { return fate{hang: hang} })
		for time.Since(start) < 29*time.Second {
			time.Sleep(time.Second)
			if more := runtime.NumGoroutine() - before; more > 100 {
				t.Fatalf("%d goroutines for %d leases, want at most 100", more, n)
			}
			if n := s.underway("renew"); n > 40 { // they are not all sent at once, and none is sent again
				t.Fatalf("%d calls are running, want at most 40", n)
			}
		}
		time.Sleep(time.Until(start.Add(30 * time.Second)))
		for _, l := range leases {
			if l.Valid() || !over(l.Lost()) {
				t.Fatal("a lease is valid after its deadline")
			}
		}
		close(hang)
	})
}

func TestOneNamesFailureDoesNotTouchAnothers(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, s, nil)
		good, gone, silent := lock(t, locks, "good"), lock(t, locks, "gone"), lock(t, locks, "silent")
		silentID := silent.ID()
		s.on(func(c *call) fate {
			return fate{renew: func(i int, r *store.Renewal) {
				if c.holds[i].ID.String() == silentID {
					r.Err = errLink
				}
			}}
		})
		s.mem.Break("gone")
		<-gone.Lost()
		same(t, "the first is lost at once", time.Since(start), 10*time.Second)
		<-silent.Lost()
		same(t, "the second is lost at its deadline", time.Now(), ends(start, 30*time.Second))
		if !good.Valid() {
			t.Fatal("the third lease was lost too")
		}
		renewed := 0
		for _, c := range s.made("renew") {
			for _, h := range c.holds {
				if h.Name == "good" {
					renewed++
				}
			}
		}
		if renewed < 2 || renewed > 3 {
			t.Fatalf("the third was renewed %d times in 30 seconds, want 2 or 3", renewed)
		}
		release(t, good)
	})
}

// A renewal that had to wait for its turn is not sent for a lease that has ended
// meanwhile: it would keep the name from the next waiter.
func TestAHoldThatEndsBeforeItsBatchIsNotRenewed(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{TTL: 8 * time.Second})
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" && c.n < engine.Batches {
				return fate{hang: hang}
			}
			return fate{}
		})
		var last *Lease
		// They are in calls of their own, as their bounds differ, and due at the same time:
		// the last one waits until the others have hung for long.
		start, due := time.Now(), 1700*time.Millisecond
		for i, every := range []time.Duration{1700, 1400, 1200, 1000} {
			time.Sleep(time.Until(start.Add(due - every*time.Millisecond)))
			lock(t, locks.With(&Options{RenewEvery: every * time.Millisecond}), fmt.Sprint(i))
		}
		time.Sleep(170 * time.Millisecond)
		last = lock(t, locks.With(&Options{RenewEvery: 900 * time.Millisecond, MaxHold: 915 * time.Millisecond}), "last")
		<-last.Lost()
		same(t, "running batches", len(s.made("renew")), engine.Batches)
		time.Sleep(2 * engine.Grace)
		close(hang)
		synctest.Wait()
		for _, c := range s.made("renew") {
			if c.name == last.Name() {
				t.Fatal("a lease that was lost was renewed")
			}
		}
	})
}
