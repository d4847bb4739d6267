package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

type someKey struct{}

// contexts are one of each kind that a lease can end.
func contexts(t *testing.T, l *Lease) []context.Context {
	cancellable, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	timed, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	t.Cleanup(cancel)
	all := []context.Context{
		l.Context(context.Background()),
		l.Context(context.WithValue(context.Background(), someKey{}, 1)),
		l.Context(cancellable), l.Context(timed),
		l.Context(l.Context(cancellable)),
	}
	under, cancel := context.WithCancel(all[2])
	t.Cleanup(cancel)
	return append(all, under)
}

func TestRule7_ReleaseFirstMakesValidFalseAndEndsTheContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var l *Lease
		var all []context.Context
		s.on(func(c *call) fate {
			if c.op == "release" {
				if l.Valid() {
					t.Error("valid when the release is sent")
				}
				for i, ctx := range all {
					if ctx.Err() == nil {
						t.Errorf("context %d has not ended when the release is sent", i)
					}
				}
			}
			return fate{}
		})
		l = lock(t, locker(t, s, nil), "a")
		all = contexts(t, l)
		for i, ctx := range all {
			if ctx.Err() != nil {
				t.Fatalf("context %d has ended", i)
			}
		}
		lost := l.Lost()
		release(t, l)
		for _, ctx := range all {
			is(t, ctx.Err(), context.Canceled)
			is(t, context.Cause(ctx), ErrReleased)
			isNot(t, context.Cause(ctx), ErrLost)
		}
		if over(lost) { // B55
			t.Fatal("a release told a loss")
		}
		if !time.Now().After(l.Deadline()) {
			t.Fatal("the deadline of a released lease is not past")
		}
		is(t, context.Cause(l.Context(t.Context())), ErrReleased)
	})
}

func TestRule7_ReleaseWaitsForTheRenewalInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{there: time.Second, back: time.Second}
			}
			return fate{}
		})
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		ctx := l.Context(t.Context())
		time.Sleep(10*time.Second + 500*time.Millisecond)
		go func() {
			time.Sleep(time.Nanosecond)
			if l.Valid() || ctx.Err() == nil {
				t.Error("valid while a release waits for a renewal")
			}
		}()
		release(t, l)
		same(t, "calls", s.ops(), "try renew release")
		same(t, "released", s.made("release")[0].sent.Sub(start), 12*time.Second)
		empty(t, s.mem)
	})
}

func TestRule7_ReleaseStopsTheRenewing(t *testing.T) { // B75
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l := lock(t, locks, "a")
		time.Sleep(15 * time.Second)
		s.on(func(c *call) fate { return fate{fail: errLink} })
		is(t, l.Release(), ErrUnavailable)
		sent := len(s.made())
		time.Sleep(time.Hour)
		same(t, "calls after the release", len(s.made()), sent)
	})
}

func TestRule7_ReleaseIsBoundedOnItsOwnContext(t *testing.T) {
	for ttl, bound := range map[time.Duration]time.Duration{30 * time.Second: 5 * time.Second, 6 * time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(c *call) fate {
				if c.op == "release" {
					return fate{there: time.Hour}
				}
				return fate{}
			})
			l := lock(t, locker(t, s, &Options{TTL: ttl}), "a")
			start := time.Now()
			err := l.Release()
			is(t, err, ErrUnavailable)
			isNot(t, err, context.DeadlineExceeded, ErrLost)
			same(t, "took", time.Since(start), bound)
			is(t, l.Release(), ErrReleased)
			time.Sleep(ttl)
			empty(t, s.mem) // at the TTL it is gone
		})
	}
}

func TestRule7_NothingThereBeforeTheDeadlineIsARepeatedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "release" && c.n == 0 {
				return fate{lose: errLink}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		release(t, l)
		same(t, "calls", s.ops(), "try release release")
	})
}

func TestRule7_NothingThereAfterTheDeadlineIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			switch c.op {
			case "renew":
				return fate{fail: errLink}
			case "release":
				return fate{there: 2 * time.Second}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(29 * time.Second)
		is(t, l.Release(), ErrLost)
		same(t, "releases", len(s.made("release")), 1)
	})
}

// B51, B52.
func TestRule7_AfterALossNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		s.renewalsFail(start.Add(time.Hour))
		<-l.Lost()
		time.Sleep(time.Second)
		o := other(t, s.mem, "a", time.Minute)
		sent := len(s.made())
		is(t, l.Release(), ErrLost)
		is(t, l.Release(), ErrLost)
		same(t, "calls after the loss", len(s.made()), sent)
		st := stored(s.mem, "a")
		if len(st.Entries) != 1 || st.Entries[0].ID != o.c.ID || st.Entries[0].Expires != time.Minute {
			t.Fatalf("the next holder was touched: %+v", st.Entries)
		}
	})
}

// The store's word reaches a renewal after the release has begun.
func TestRule7_ALossToldToTheRenewalInFlightIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{back: time.Second}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		s.mem.Break("a")
		time.Sleep(10*time.Second + 500*time.Millisecond)
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try renew")
	})
}

// B3, B49, B50.
func TestRule7_ASecondReleaseIsHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		for range 10 {
			l := lock(t, locks, "a")
			_, err := locks.Mutex("a").TryLock(t.Context())
			is(t, err, ErrHeld)
			release(t, l)
			next := lock(t, locks, "a")
			is(t, l.Release(), ErrReleased)
			same(t, "entries", len(stored(s.mem, "a").Entries), 1)
			same(t, "holder", stored(s.mem, "a").Entries[0].ID, next.engine().Probe().Hold().ID)
			if !next.Valid() {
				t.Fatal("the second release ended another's lease")
			}
			release(t, next)
		}
	})
}

func TestRule7_ConcurrentReleasesSendOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		errs := make(chan error)
		for range 10 {
			go func() { errs <- l.Release() }()
		}
		var good int
		for range 10 {
			if err := <-errs; err == nil {
				good++
			} else {
				is(t, err, ErrReleased)
			}
		}
		same(t, "that released it", good, 1)
		same(t, "calls", s.ops(), "try release")
	})
}

// An operator's break is told by the release's answer only if a renewal was
// told it; the entry itself can still be given back.
func TestRule7_ABrokenHoldCanBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		e := stored(s.mem, "a").Entries[0]
		if err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: e.Token}); err != nil {
			t.Fatal(err)
		}
		release(t, l)
		empty(t, s.mem)
	})
}

// A hold that was broken stays in the way until it expires, as its owner may
// still be at work; that he releases it says that he is not.
func TestRule7_ABrokenHoldIsGivenBackWhenItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		e := stored(s.mem, "a").Entries[0]
		b := store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "stuck since noon"}
		if err := s.mem.BreakHold(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		<-l.Lost()
		if n := len(stored(s.mem, "a").Entries); n != 1 {
			t.Fatalf("%d entries before its owner has said that he is done, want 1", n)
		}
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), b.Reason) {
			t.Errorf("%v does not say why", err)
		}
		empty(t, s.mem)
		sent := len(s.made("release"))
		is(t, l.Release(), ErrLost)
		same(t, "releases of a second Release", len(s.made("release"))-sent, 0)
	})
}

func TestRule8_CloseGivesBackAllAndEndsAllWaits(t *testing.T) { // B66, B121
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
			waiters = append(waiters, waits(t, locks.Mutex(fmt.Sprint(i/2)).Lock)) // two at the gate
		}
		time.Sleep(time.Second)
		closed := time.Now()
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		for _, w := range waiters {
			w.failed(ErrClosed)
			same(t, "left after", w.at.Sub(closed), 0)
			isNot(t, w.err, ErrHeld)
		}
		for i, l := range leases {
			is(t, context.Cause(ends[i]), ErrReleased, ErrClosed)
			if l.Valid() || over(l.Lost()) {
				t.Fatal("a lease is valid, or told as lost, after Close")
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

func TestRule8_CloseEndsAllLeasesAtOnceThoughTheStoreHangs(t *testing.T) {
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
			t.Fatalf("Close took %v", d)
		}
	})
}

// Close waits for what is under way, and a grant that comes meanwhile is given
// back.
func TestRule8_CloseWaitsForWhatIsUnderWay(t *testing.T) {
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
		same(t, "the waiter left after", w.at.Sub(start), 500*time.Millisecond)
		same(t, "Close took until", time.Since(start), 3*time.Second)
		same(t, "calls", s.ops(), "ask withdraw")
		same(t, "calls under way", s.underway("withdraw"), 0)
		empty(t, s.mem)
	})
}

// A context that never ends is asked under without a goroutine of its own.
func TestRule8_CloseEndsAWaitWhoseContextNeverEnds(t *testing.T) {
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

func TestRule8_ReleaseDuringCloseWaitsForIt(t *testing.T) {
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

// A lease that was broken would be given back when it is released, but the
// store has been closed.
func TestRule8_NothingIsSentAfterClose(t *testing.T) {
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

// Whatever kind of wait it is in, a goroutine of the engine ends with Close:
// the bubble ends only when all have, and TestMain looks once more.
func TestRule8_NoGoroutineIsLeftAfterClose(t *testing.T) {
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
		same(t, "renewals under way", s.underway("renew"), 1)
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

func TestRule8_CloseClosesTheStoreOnceAndTellsItsError(t *testing.T) {
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
