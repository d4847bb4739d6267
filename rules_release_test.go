package holdfast

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

type someKey struct{}

// contexts has one of each kind of context that a lease can end.
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

func TestReleaseFirstMakesValidFalseAndEndsTheContexts(t *testing.T) { // rule 7
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var l *Lease
		var all []context.Context
		s.on(func(c *call) fate {
			if c.op == "release" {
				if l.Valid() {
					t.Error("the lease is valid when its release is sent")
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
				t.Fatalf("context %d has ended before the release", i)
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
			t.Fatal("the release reported a loss")
		}
		if !time.Now().After(l.Deadline()) {
			t.Fatal("the deadline of a released lease is in the future")
		}
		is(t, context.Cause(l.Context(t.Context())), ErrReleased)
	})
}

func TestReleaseWaitsForTheRenewalInFlight(t *testing.T) { // rule 7
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
				t.Error("the lease is valid while its release waits for a renewal")
			}
		}()
		release(t, l)
		same(t, "calls", s.ops(), "try renew release")
		same(t, "released", s.made("release")[0].sent.Sub(start), 12*time.Second)
		empty(t, s.mem)
	})
}

func TestReleaseStopsTheRenewing(t *testing.T) { // rule 7, B75
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

func TestReleaseIsBoundedOnItsOwnContext(t *testing.T) { // rule 7
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
			empty(t, s.mem) // at the TTL the entry is gone
		})
	}
}

func TestNothingThereBeforeTheDeadlineIsARepeatedRelease(t *testing.T) { // rule 7
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

func TestNothingThereAfterTheDeadlineIsALoss(t *testing.T) { // rule 7
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
func TestAfterALossNothingIsSent(t *testing.T) { // rule 7
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
			t.Fatalf("the entry of the next holder was changed: %+v", st.Entries)
		}
	})
}

// A renewal gets the store's answer after the release has begun.
func TestALossReturnedToARenewalInFlightIsReported(t *testing.T) { // rule 7
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
func TestASecondReleaseIsHarmless(t *testing.T) { // rule 7
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
				t.Fatal("the second release ended the lease of another")
			}
			release(t, next)
		}
	})
}

func TestConcurrentReleasesSendOne(t *testing.T) { // rule 7
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
		same(t, "releases that succeeded", good, 1)
		same(t, "calls", s.ops(), "try release")
	})
}

// A release reports an operator's break only if a renewal has learned of it.
// The entry itself can still be released.
func TestABrokenHoldCanBeReleased(t *testing.T) { // rule 7
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

// A broken hold blocks until it expires, as its owner may still be working. A
// release says that it is not.
func TestABrokenHoldIsFreedWhenItIsReleased(t *testing.T) { // rule 7
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
			t.Fatalf("got %d entries before the holder released, want 1", n)
		}
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), b.Reason) {
			t.Errorf("%v does not give the reason of the break", err)
		}
		empty(t, s.mem)
		sent := len(s.made("release"))
		is(t, l.Release(), ErrLost)
		same(t, "calls of a second Release", len(s.made("release"))-sent, 0)
	})
}
