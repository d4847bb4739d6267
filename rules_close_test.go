package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// opened is a Locker that the test closes itself.
func opened(t testing.TB, s store.Store, o *Options) *Locker {
	t.Helper()
	l, err := New(s, (&Options{Logger: slog.New(slog.DiscardHandler)}).with(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func takeMany(t testing.TB, l *Locker, n int) []*Lease {
	t.Helper()
	all := make([]*Lease, n)
	for i := range all {
		all[i] = lock(t, l, fmt.Sprintf("n%05d", i))
	}
	return all
}

// closed closes and checks how long that takes, by the bubble's clock.
func closed(t testing.TB, l *Locker, most time.Duration) error {
	t.Helper()
	start := time.Now()
	err := l.Close()
	if took := time.Since(start); took > most {
		t.Errorf("Close took %v, want at most %v", took, most)
	}
	return err
}

func releasesFail(c *call) fate {
	if c.op == "release" || c.op == "release all" {
		return fate{fail: errLink}
	}
	return fate{}
}

func TestClose_TakesFiveSecondsHoweverManyLeases(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			l := opened(t, s, nil)
			all := takeMany(t, l, n)
			s.on(releasesFail)
			err := closed(t, l, 5*time.Second)
			is(t, err, ErrUnavailable, errLink)
			if want := fmt.Sprintf("%d of %d leases", n, n); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("Close: got %v, want it to say %q", err, want)
			}
			if all[0].Valid() || all[n-1].Valid() {
				t.Error("a lease is valid after Close")
			}
			if again := l.Close(); fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("a second Close: got %v, want what the first returned", again)
			}
		})
	}
}

func TestClose_TakesFiveSecondsWhileTheDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tellsClose{link: newLink(t)}
		l := opened(t, s, nil)
		takeMany(t, l, 3)
		never := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "release" || c.op == "release all" {
				return fate{hang: never} // whatever its context says
			}
			return fate{}
		})
		is(t, closed(t, l, 5*time.Second), ErrUnavailable)
		if s.closes > 0 {
			t.Error("the store was closed during a call")
		}
		close(never)
		synctest.Wait()
		same(t, "closes of the store", s.closes, 1)
	})
}

func TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		deadlines := map[store.ID]time.Time{}
		l := opened(t, s, nil)
		for i, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 3 * time.Second, 30 * time.Second} {
			for j := range 20 {
				lease := lock(t, l.With(&Options{TTL: ttl, NoRenew: On}), fmt.Sprint(i, "/", j))
				deadlines[lease.engine().Probe().Hold().ID] = lease.Deadline()
			}
		}
		slow := func(c *call) fate {
			if c.op == "release" || c.op == "release all" {
				return fate{there: 700 * time.Millisecond, fail: errLink}
			}
			return fate{}
		}
		s.on(slow)
		is(t, closed(t, l, 5*time.Second), ErrUnavailable)
		last := time.Duration(0)
		for _, c := range s.made("release", "release all") {
			for _, h := range c.holds {
				if end := deadlines[h.ID]; c.done.After(end) || !c.sent.Before(end) {
					t.Fatalf("the release of %q, which expires at %v, was sent at %v and took until %v", h.Name, end, c.sent, c.done)
				}
			}
			first, end := c.sent.Add(time.Hour), c.sent
			for _, h := range c.holds {
				if d := deadlines[h.ID]; d.Before(first) {
					first = d
				} else if d.After(end) {
					end = d
				}
			}
			if first.Sub(c.sent) < time.Second && end.Sub(c.sent) > 4*time.Second {
				t.Fatal("a hold that expires soon shortens the call of another that does not")
			}
			last = max(last, c.sent.Sub(s.made()[0].sent))
		}
		if last < 3*time.Second {
			t.Errorf("the last release was sent after %v, want at least 3s", last)
		}
	})
}

func TestClose_SaysHowManyWereNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errClose := errors.New("the store does not close")
		s := &tellsClose{link: newLink(t), err: errClose}
		l := opened(t, s, nil)
		takeMany(t, l, 2500)
		denied := fmt.Errorf("%w: read-only", store.ErrDenied)
		s.on(func(c *call) fate {
			return fate{released: func(i int, err *error) {
				switch name := c.holds[i].Name; name[len(name)-2:] {
				case "07":
					*err = errLink
				case "08":
					*err = denied
				case "09":
					*err = store.ErrLost // our own, repeated by the driver
				}
			}}
		})
		err := closed(t, l, 5*time.Second)
		is(t, err, ErrUnavailable, errClose)
		if !strings.Contains(fmt.Sprint(err), ": 50 of 2500 leases") {
			t.Errorf("Close: got %v, want it to say that 50 of 2500 leases were not released", err)
		}
		isNot(t, err, ErrLost)
		is(t, l.Close(), errClose)
	})
}

// Holds that All is about to return to its caller have no other owner.
func TestClose_CountsLeasesThatAllJustAcquired(t *testing.T) {
	for failing, want := range map[bool]string{true: ": 3 of 3 leases", false: ""} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			l := opened(t, s, nil)
			lock(t, l, "c")
			s.on(func(c *call) fate {
				switch {
				case c.op == "renew":
					return fate{back: time.Second}
				case c.op == "withdraw" && failing:
					return fate{fail: errLink}
				case failing:
					return releasesFail(c)
				}
				return fate{}
			})
			w, _ := waitsAll(t, l.With(&Options{MinHold: time.Hour}).All(mutexes(l, "a", "b")...))
			time.Sleep(500 * time.Millisecond)
			err := closed(t, l, 5*time.Second)
			w.failed(ErrClosed)
			if failing {
				is(t, err, ErrUnavailable, errLink)
			}
			if got := fmt.Sprint(err); !strings.Contains(got, want) || failing != (err != nil) {
				t.Errorf("Close: got %v, want it to say %q", err, want)
			}
		})
	}
}

// Every error that the store has caused matches.
func TestClose_AStoreThatDoesNotCloseIsUnavailable(t *testing.T) {
	for _, why := range []error{errLink, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			s := &tellsClose{link: newLink(t), err: why}
			err := opened(t, s, nil).Close()
			is(t, err, ErrUnavailable)
			if why == errLink {
				is(t, err, why)
			}
			isNot(t, err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), "close a link") {
				t.Errorf("the error does not name the operation: %v", err)
			}
		})
	}
}

func TestClose_ReleasesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		takeMany(t, l, 2500)
		if err := closed(t, l, 0); err != nil {
			t.Fatal(err)
		}
		same(t, "calls", len(s.made("release", "release all")), 3)
		empty(t, s.mem)
	})
}

// Names that hang do not delay the release of others, also at Close.
func TestClose_NamesThatHangKeepNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, &hangsFor{link: s, names: func(name string) bool { return strings.HasSuffix(name, "07") }}, nil)
		takeMany(t, l, 9000)
		err := closed(t, l, 5*time.Second)
		is(t, err, ErrUnavailable)
		if !strings.Contains(fmt.Sprint(err), "90 of 9000 leases") {
			t.Errorf("Close: got %v, want it to say that 90 of 9000 leases were not released", err)
		}
		n := 0
		for range s.mem.List(context.Background(), "") {
			n++
		}
		same(t, "names left in the store", n, 90)
	})
}

// tellsClose counts how often the store is closed.
type tellsClose struct {
	*link
	closes int
	err    error
}

func (s *tellsClose) Close() error { s.closes++; return s.err }

// hangsFor is a link that has no answer for some names until the call's context
// ends, and answers for the others at once, as a cluster with a frozen server
// does.
type hangsFor struct {
	*link
	names func(string) bool
	mixed atomic.Int64 // renewals of both in one call
}

func (s *hangsFor) split(holds []store.Hold) (answered, silent []int) {
	for i, h := range holds {
		if s.names(h.Name) {
			silent = append(silent, i)
		} else {
			answered = append(answered, i)
		}
	}
	return answered, silent
}

func pick(holds []store.Hold, some []int) []store.Hold {
	picked := make([]store.Hold, len(some))
	for i, j := range some {
		picked[i] = holds[j]
	}
	return picked
}

func (s *hangsFor) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	answered, silent := s.split(holds)
	if len(answered) > 0 {
		for i, err := range s.link.ReleaseAll(ctx, pick(holds, answered)) {
			out[answered[i]] = err
		}
	}
	if len(silent) > 0 {
		<-ctx.Done()
		for _, i := range silent {
			out[i] = ctx.Err()
		}
	}
	return out
}

func (s *hangsFor) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	answered, silent := s.split(holds)
	if len(answered) > 0 && len(silent) > 0 {
		s.mixed.Add(1)
	}
	if len(answered) > 0 {
		for i, r := range s.link.Renew(ctx, pick(holds, answered)) {
			out[answered[i]] = r
		}
	}
	if len(silent) > 0 {
		<-ctx.Done()
		for _, i := range silent {
			out[i].Err = ctx.Err()
		}
	}
	return out
}

// watched is a store that several engines share, and records which are subscribed.
type watched struct {
	*memstore.Store
	mu sync.Mutex
	by map[store.Process]bool
}

func (s *watched) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[p] = true
	return s.Store.Watch(ctx, p, sink)
}

func (s *watched) Unwatch(p store.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, p)
	s.Store.Unwatch(p)
}

func TestCloseEndsTheSubscription(t *testing.T) { // rule 8
	synctest.Test(t, func(t *testing.T) {
		s := &watched{Store: memstore.New(), by: map[store.Process]bool{}}
		closed, open := locker(t, s, nil), locker(t, s, nil)
		l := lock(t, locker(t, s, nil), "a")
		w, beside := waits(t, closed.Mutex("a").Lock), waits(t, open.Mutex("a").Lock)
		same(t, "subscriptions", len(s.by), 2)
		is(t, closed.Close(), nil)
		w.wait()
		is(t, w.err, ErrClosed)
		same(t, "subscriptions after Close", len(s.by), 1)
		release(t, l)
		release(t, beside.got())
	})
}
