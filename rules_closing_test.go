package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestCloseGivesBackAllAndEndsAllWaits(t *testing.T) { // rule 8, B66, B121
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate { return fate{there: 10 * time.Millisecond, back: 10 * time.Millisecond} })
		locks := locker(t, withNotifications{s}, nil)
		var leases []*Lease
		var ends []context.Context
		for i := range 100 {
			l := lock(t, locks.With(&Options{TTL: time.Minute}), fmt.Sprint(i))
			leases, ends = append(leases, l), append(ends, l.Context(t.Context()))
		}
		var waiters []*waiter
		for i := range 4 {
			waiters = append(waiters, waits(t, locks.Mutex(fmt.Sprint(i/2)).Lock)) // two in the local queue
		}
		time.Sleep(time.Second)
		closed := time.Now()
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		for _, w := range waiters {
			w.failed(ErrClosed)
			same(t, "returned after", w.at.Sub(closed), 0)
			isNot(t, w.err, ErrHeld)
		}
		for i, l := range leases {
			is(t, context.Cause(ends[i]), ErrReleased, ErrClosed)
			if l.Valid() || over(l.Lost()) {
				t.Fatal("after Close a lease is valid or reported as lost")
			}
			is(t, l.Release(), ErrReleased)
		}
		empty(t, s.mem)
		calls := len(s.made())
		_, err := locks.Mutex("a").Lock(t.Context())
		is(t, err, ErrClosed)
		_, err = locks.With(&Options{TTL: time.Minute}).Semaphore("a", 2).TryAcquire(t.Context(), 1)
		is(t, err, ErrClosed)
		if err := locks.Close(); err != nil {
			t.Fatal("second Close:", err)
		}
		time.Sleep(time.Hour)
		same(t, "calls after Close", len(s.made()), calls)
	})
}

func TestCloseEndsAllLeasesAtOnceWhileTheStoreHangs(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := opened(t, s, &Options{TTL: 6 * time.Second})
		var ends []context.Context
		for i := range 100 {
			ends = append(ends, lock(t, locks, fmt.Sprint(i)).Context(t.Context()))
		}
		s.on(func(*call) fate { return fate{there: time.Hour} })
		done := make(chan error)
		start := time.Now()
		go func() { done <- locks.Close() }()
		synctest.Wait()
		for _, ctx := range ends {
			is(t, context.Cause(ctx), ErrClosed)
		}
		is(t, <-done, ErrUnavailable)
		if d := time.Since(start); d > engine.CloseTime {
			t.Fatalf("Close took %v, too long", d)
		}
	})
}

// Close waits for calls under way, and a grant that comes meanwhile is
// released.
func TestCloseWaitsForWhatIsUnderWay(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate { return fate{there: 500 * time.Millisecond, back: time.Second} })
		start := time.Now()
		locks := locker(t, s, nil)
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(500 * time.Millisecond)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		w.failed(ErrClosed)
		same(t, "the waiter returned after", w.at.Sub(start), 500*time.Millisecond)
		same(t, "time in Close", time.Since(start), 3*time.Second)
		same(t, "calls", s.ops(), "ask withdraw")
		same(t, "running calls", s.underway("withdraw"), 0)
		empty(t, s.mem)
	})
}

// With a context that never ends, the ask needs no goroutine of its own.
func TestCloseEndsAWaitWhoseContextNeverEnds(t *testing.T) { // rule 8
	for what, f := range map[string]fate{
		"refused":         {},
		"indeterminate":   {fail: errLink},
		"on its way":      {there: time.Second},
		"on its way back": {back: time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				if what == "refused" {
					other(t, s.mem, "a", time.Hour)
				}
				s.on(func(c *call) fate {
					if c.op == "withdraw" {
						return fate{}
					}
					return f
				})
				locks := locker(t, withNotifications{s}, nil)
				w := waits(t, func(context.Context) (*Lease, error) { return locks.Mutex("a").Lock(context.Background()) })
				time.Sleep(500 * time.Millisecond)
				if err := locks.Close(); err != nil {
					t.Fatal(err)
				}
				w.failed(ErrClosed)
				isNot(t, w.err, ErrUnavailable)
				if what != "refused" {
					empty(t, s.mem)
				}
			})
		})
	}
}

func TestReleaseDuringCloseWaitsForIt(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l := lock(t, locks, "a")
		s.on(func(c *call) fate { return fate{there: time.Second} })
		go locks.Close()
		synctest.Wait()
		is(t, l.Release(), ErrReleased)
		empty(t, s.mem)
	})
}

// Releasing a broken lease would release its entry, but the store has been
// closed.
func TestNothingIsSentAfterClose(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l := lock(t, locks, "a")
		e := stored(s.mem, "a").Entries[0]
		if err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: e.Token}); err != nil {
			t.Fatal(err)
		}
		<-l.Lost()
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		sent := len(s.made())
		is(t, l.Release(), ErrLost)
		same(t, "calls after Close", len(s.made()), sent)
	})
}

// However a goroutine of the engine waits, it ends with Close: the bubble ends
// only when all have ended, and TestMain checks once more.
func TestNoGoroutineIsLeftAfterClose(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "watch" || c.op == "renew" {
				return fate{there: time.Hour}
			}
			return fate{}
		})
		locks, err := New(withNotifications{s}, &Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		lock(t, locks, "a").Context(t.Context())
		other(t, s.mem, "b", time.Hour)
		w := waits(t, locks.Mutex("b").Lock)
		time.Sleep(11 * time.Second)
		same(t, "running renewals", s.underway("renew"), 1)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		w.failed(ErrClosed)
	})
}

type closing struct {
	*memstore.Store
	err    error
	closed int
}

func (s *closing) Close() error { s.closed++; return s.err }

func TestCloseClosesTheStoreOnceAndReturnsItsError(t *testing.T) { // rule 8
	s := &closing{Store: memstore.New(), err: errors.New("it creaks")}
	locks, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		is(t, locks.With(&Options{Note: "any of them"}).Close(), s.err)
	}
	same(t, "closed", s.closed, 1)
}
