package holdfast

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A shutting is a Shutdown under way.
type shutting struct {
	done chan struct{}
	err  error
}

func shuts(ctx context.Context, l *Locker) *shutting {
	s := &shutting{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = l.Shutdown(ctx)
	}()
	synctest.Wait()
	return s
}

func (s *shutting) ended(t testing.TB) bool {
	t.Helper()
	return over(s.done)
}

func TestShutdown_WaitsForLeasesAndRenewsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, withNotifications{s}, nil)
		one, two := lock(t, l, "a"), lock(t, l, "b")
		w := waits(t, l.Mutex("a").Lock)
		down := shuts(t.Context(), l)
		w.failed(ErrClosed)
		calls := len(s.made("try", "ask"))
		_, err := l.Mutex("c").TryLock(t.Context())
		is(t, err, ErrClosed)
		_, err = l.With(&Options{TTL: time.Minute}).Mutex("c").Lock(t.Context())
		is(t, err, ErrClosed)
		synctest.Wait()
		same(t, "asks in Shutdown", len(s.made("try", "ask"))-calls, 0)
		time.Sleep(10 * time.Minute)
		if !one.Valid() || !two.Valid() || down.ended(t) {
			t.Fatal("Shutdown ended a lease")
		}
		release(t, one)
		if down.ended(t) {
			t.Fatal("Shutdown returned while a lease is held")
		}
		release(t, two)
		if !down.ended(t) || down.err != nil {
			t.Fatalf("Shutdown: %v, returned: %v", down.err, down.ended(t))
		}
		empty(t, s.mem)
	})
}

func TestShutdown_WaitsForADoWhoseLeaseHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		end := make(chan struct{})
		do := make(chan error, 1)
		go func() {
			do <- l.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
				_ = LeaseFrom(ctx).Release()
				<-end
				return nil
			})
		}()
		synctest.Wait()
		down := shuts(t.Context(), l)
		time.Sleep(time.Hour)
		if down.ended(t) {
			t.Fatal("Shutdown returned while a Do is running")
		}
		close(end)
		if !down.ended(t) || down.err != nil || <-do != nil {
			t.Fatalf("Shutdown: %v", down.err)
		}
	})
}

func TestShutdown_ClosesWhenItsContextEnds(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		lease := lock(t, l, "a")
		under := lease.Context(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := l.Shutdown(ctx)
		same(t, "took", time.Since(start), 3*time.Second)
		is(t, err, context.DeadlineExceeded)
		isNot(t, err, ErrUnavailable)
		if !strings.Contains(err.Error(), "1 leases were still held") {
			t.Errorf("Shutdown: %v", err)
		}
		is(t, context.Cause(under), ErrReleased, ErrClosed)
		empty(t, s.mem)
	})
}

func TestShutdown_OfNothingClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := &tellsClose{link: newLink(t)}
		l := opened(t, s, nil)
		if err := l.Shutdown(over); err != nil {
			t.Fatal(err)
		}
		if err := l.Shutdown(over); err != nil {
			t.Fatal("a second one:", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal("Close after it:", err)
		}
		same(t, "times that the store was closed", s.closes, 1)
	})
}

func TestShutdown_AConcurrentCloseEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errClose := errors.New("it creaks")
		s := &tellsClose{link: newLink(t), err: errClose}
		l := opened(t, s, nil)
		lease := lock(t, l, "a")
		end := make(chan struct{})
		defer close(end)
		go func() { _ = l.Mutex("b").Do(t.Context(), func(context.Context) error { <-end; return nil }) }()
		synctest.Wait()
		one, two := shuts(t.Context(), l), shuts(t.Context(), l)
		time.Sleep(time.Hour)
		is(t, l.Close(), errClose)
		if !one.ended(t) || !two.ended(t) {
			t.Fatal("Shutdown did not return after Close")
		}
		is(t, one.err, errClose)
		is(t, two.err, errClose)
		if lease.Valid() {
			t.Error("the lease is valid after Close")
		}
	})
}

func TestShutdown_TheFirstContextThatEndsClosesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, newLink(t), nil)
		lock(t, l, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second) // between renewals
		defer cancel()
		start := time.Now()
		long, short := shuts(t.Context(), l), shuts(ctx, l)
		<-long.done
		<-short.done
		same(t, "took", time.Since(start), 55*time.Second)
		is(t, short.err, context.DeadlineExceeded)
		if long.err != nil {
			t.Errorf("Shutdown with the longer context: %v", long.err)
		}
	})
}

// Shutdown does not wait for leases that are lost meanwhile, nor for holds that another process has adopted.
func TestShutdown_WaitsForNoEndedLease(t *testing.T) {
	for what, end := range map[string]func(*link, *Lease){
		"lost":     func(s *link, l *Lease) { s.mem.Break("a") },
		"detached": func(s *link, l *Lease) { _, _ = l.Detach() },
		"by its clock": func(s *link, l *Lease) {
			s.on(func(c *call) fate { return fate{fail: errLink} })
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				l := opened(t, s, nil)
				lease := lock(t, l, "a")
				down := shuts(t.Context(), l)
				end(s, lease)
				time.Sleep(31 * time.Second)
				if !down.ended(t) || down.err != nil {
					t.Fatalf("Shutdown returned: %v, error %v", down.ended(t), down.err)
				}
			})
		})
	}
}

// A leader leads until its function returns, and does not campaign again.
func TestShutdown_ALeaderFinishesAndNoOtherIsElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, withNotifications{s}, nil)
		end := make(chan struct{})
		led := make(chan error, 2)
		lead := func() {
			led <- l.Election("e").Lead(t.Context(), func(context.Context) error { <-end; return nil })
		}
		go lead()
		synctest.Wait()
		go lead()
		synctest.Wait()
		down := shuts(t.Context(), l)
		is(t, <-led, ErrClosed) // the candidate
		time.Sleep(time.Hour)
		if down.ended(t) {
			t.Fatal("Shutdown returned while the candidate leads")
		}
		close(end)
		if err := <-led; err != nil {
			t.Fatal("Lead:", err)
		}
		if !down.ended(t) || down.err != nil {
			t.Fatalf("Shutdown: %v", down.err)
		}
	})
}

// A downgrade that is not answered is repeated, also during Shutdown, with a
// pause.
func TestShutdown_ADowngradeGoesOn(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		lease, err := l.RWMutex("a").Upgradeable().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		down := shuts(t.Context(), l)
		until := time.Now().Add(8 * time.Second)
		s.on(func(c *call) fate {
			if c.op == "change" && time.Now().Before(until) {
				return fate{fail: store.ErrDenied}
			}
			return fate{}
		})
		is(t, lease.Downgrade(), ErrUnavailable)
		time.Sleep(10 * time.Second)
		same(t, "weight", stored(s.mem, "a").Entries[0].Weight, int64(1<<29+1))
		if n := len(s.made("change")); n > 60 {
			t.Errorf("%d changes were sent, want at most 60", n)
		}
		release(t, lease)
		if !down.ended(t) {
			t.Fatal("Shutdown did not return")
		}
	})
}

func TestShutdown_OfLeasesWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		l := opened(t, s, nil)
		lease := lock(t, l, "a")
		down := shuts(t.Context(), l)
		time.Sleep(time.Hour)
		if down.ended(t) || !lease.Valid() {
			t.Fatal("Shutdown ended a lease")
		}
		release(t, lease)
		if !down.ended(t) || down.err != nil {
			t.Fatalf("Shutdown: %v", down.err)
		}
	})
}
