package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// reentrant is a locker on the link with re-entry.
func reentrant(t testing.TB, s store.Store) *Locker { return locker(t, s, &Options{Reentrant: On}) }

// take is a claim that must be granted.
func take(t testing.TB, ctx context.Context, lock func(context.Context) (*Lease, error)) *Lease {
	t.Helper()
	l, err := lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestReentry_ACoveredClaimTakesNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, withNotifications{s})
		rw, m := locks.RWMutex("a"), locks.Mutex("a")
		for what, c := range map[string]struct {
			outer, inner func(context.Context) (*Lease, error)
		}{
			"write in write":     {rw.Write().Lock, rw.Write().Lock},
			"try in write":       {rw.Write().Lock, rw.Write().TryLock},
			"mutex in write":     {rw.Write().Lock, m.Lock},
			"read in mutex":      {m.Lock, rw.Read().Lock},
			"read in write":      {rw.Write().Lock, rw.Read().Lock},
			"try read in write":  {rw.Write().Lock, rw.Read().TryLock},
			"read in read":       {rw.Read().Lock, rw.Read().Lock},
			"try read in a read": {rw.Read().Lock, rw.Read().TryLock},
		} {
			outer := take(t, t.Context(), c.outer)
			calls := len(s.made())
			inner := take(t, outer.Context(t.Context()), c.inner)
			innermost := take(t, inner.Context(outer.Context(t.Context())), rw.Read().Lock)
			for _, l := range []*Lease{inner, innermost} {
				same(t, what+": token", l.Token(), outer.Token())
				same(t, what+": id", l.ID(), outer.ID())
				same(t, what+": deadline", l.Deadline(), outer.Deadline())
				if !l.Valid() {
					t.Fatal(what, "is not valid")
				}
			}
			release(t, innermost)
			release(t, inner)
			same(t, what+": calls", len(s.made()), calls)
			if inner.Valid() || innermost.Valid() || !outer.Valid() {
				t.Fatal(what, "is valid:", inner.Valid(), innermost.Valid(), outer.Valid())
			}
			is(t, inner.Release(), ErrReleased)
			same(t, what+": entries", len(stored(s.mem, "a").Entries), 1)
			release(t, outer)
			empty(t, s.mem)
		}
	})
}

func TestReentry_AnUncoveredClaimIsADeadlockAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, withNotifications{s})
		rw, sem := locks.RWMutex("a"), locks.Semaphore("s", 3)
		r := take(t, t.Context(), rw.Read().Lock)
		slots := take(t, t.Context(), func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 2) })
		w := take(t, t.Context(), locks.Mutex("b").Lock)
		calls := len(s.made())
		for what, c := range map[string]struct {
			under *Lease
			lock  func(context.Context) (*Lease, error)
			says  string
		}{
			"write under a read":     {r, rw.Write().Lock, "a read lock of the same name"},
			"try write under a read": {r, rw.Write().TryLock, "release that first"},
			"two slots more of one":  {slots, func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 2) }, "2 slots of the same name"},
			"slots under a lock":     {w, func(ctx context.Context) (*Lease, error) { return locks.Semaphore("b", 2).Acquire(ctx, 1) }, "a lock of the same name"},
			"a lock under slots":     {slots, locks.RWMutex("s").Read().Lock, "2 slots"},
		} {
			_, err := c.lock(c.under.Context(t.Context()))
			is(t, err, ErrDeadlock)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want it to say %q", what, err, c.says)
			}
		}
		_, err := locks.With(nil).RWMutex("a").Read().Lock(t.Context()) // not under it: one more reader
		if err != nil {
			t.Fatal(err)
		}
		same(t, "calls", len(s.made()), calls+1)
	})
}

// Slots never re-enter: a claim under a lease of slots asks for more slots.
func TestReentry_SlotsDoNotReenter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		sem := reentrant(t, withNotifications{s}).Semaphore("s", 3)
		one := take(t, t.Context(), func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 1) })
		two := take(t, one.Context(t.Context()), func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 2) })
		if one.ID() == two.ID() || one.Token() == two.Token() {
			t.Fatal("two claims of slots have one id or one token")
		}
		same(t, "entries", len(stored(s.mem, "s").Entries), 2)
		_, err := sem.TryAcquire(two.Context(one.Context(t.Context())), 1)
		is(t, err, ErrDeadlock)
		release(t, one)
		release(t, two)
	})
}

// With two totals the smaller counts as long as a holder has it: two more of five wait for the two of three.
func TestReentry_SlotsOfAnotherTotalAreADeadlockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, withNotifications{s})
		for _, c := range []struct{ held, asked int }{{3, 5}, {5, 3}} {
			l := take(t, t.Context(), func(ctx context.Context) (*Lease, error) { return locks.Semaphore("s", c.held).Acquire(ctx, 2) })
			before := len(s.made())
			_, err := locks.Semaphore("s", c.asked).Acquire(l.Context(t.Context()), 2)
			is(t, err, ErrDeadlock)
			same(t, "calls", len(s.made())-before, 0)
			release(t, take(t, l.Context(t.Context()), func(ctx context.Context) (*Lease, error) { return locks.Semaphore("s", c.asked).Acquire(ctx, 1) }))
			release(t, l)
		}
	})
}

func TestReentry_NotAskedForIsADeadlockThatSaysHow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		plain := locker(t, withNotifications{s}, nil)
		l := lock(t, plain, "a")
		ctx := l.Context(t.Context())
		_, err := plain.Mutex("a").Lock(ctx)
		is(t, err, ErrDeadlock)
		if !strings.Contains(err.Error(), "Options.Reentrant") {
			t.Fatalf("%v does not name the option", err)
		}
		// The option of the claim counts, not that of the hold that it enters.
		again := take(t, ctx, plain.With(&Options{Reentrant: On}).Mutex("a").TryLock)
		same(t, "token", again.Token(), l.Token())
		release(t, l)
		release(t, again)
	})
}

// A reader that comes after a waiting writer waits behind it. A process that
// holds already would then wait for itself.
func TestReentry_AReaderEntersAgainWhileAWriterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, withNotifications{s})
		rw := locks.RWMutex("a")
		r := take(t, t.Context(), rw.Read().Lock)
		writer := waits(t, rw.Write().Lock)
		_, err := rw.Read().TryLock(t.Context())
		is(t, err, ErrHeld)
		again := take(t, r.Context(t.Context()), rw.Read().Lock)
		release(t, r)
		writer.waiting()
		release(t, again)
		release(t, writer.got())
	})
}

func TestReentry_TheLastReleaseInAnyOrderGivesTheNameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		m := reentrant(t, withNotifications{s}).Mutex("a")
		outer := take(t, t.Context(), m.Lock)
		outerCtx := outer.Context(t.Context())
		inner := take(t, outerCtx, m.Lock)
		own, under := inner.Context(t.Context()), inner.Context(outerCtx)
		next := waits(t, m.Lock)

		release(t, outer)
		if outer.Valid() || outer.Deadline().After(time.Now()) || over(outer.Lost()) {
			t.Fatal("the outer lease is valid, or lost, after its release")
		}
		is(t, context.Cause(outerCtx), ErrReleased)
		is(t, context.Cause(under), ErrReleased) // its parent has ended
		if !inner.Valid() || own.Err() != nil {
			t.Fatal("the inner lease ended with the outer one")
		}
		next.waiting()
		time.Sleep(5 * time.Minute)
		if !inner.Valid() {
			t.Fatal("the inner lease is no longer renewed")
		}
		next.waiting()
		is(t, outer.Release(), ErrReleased) // counts once
		next.waiting()

		// A caller whose lease has ended cannot enter the hold any more.
		late, cancel := context.WithTimeout(context.WithoutCancel(outerCtx), time.Second)
		defer cancel()
		_, err := m.Lock(late)
		is(t, err, context.DeadlineExceeded)

		release(t, inner)
		is(t, context.Cause(own), ErrReleased)
		release(t, next.got())
	})
}

func TestReentry_AllLeasesOfAHoldAreLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		m := reentrant(t, s).Mutex("a")
		outer := take(t, t.Context(), m.Lock)
		inner := take(t, outer.Context(t.Context()), m.Lock)
		released := take(t, outer.Context(t.Context()), m.Lock)
		release(t, released)
		ctx := inner.Context(t.Context())
		s.mem.Break("a")
		<-inner.Lost()
		synctest.Wait()
		if inner.Valid() || outer.Valid() || !over(outer.Lost()) || over(released.Lost()) {
			t.Fatal("lost, want true, true, false:", !inner.Valid(), !outer.Valid(), over(released.Lost()))
		}
		is(t, context.Cause(ctx), ErrLost)
		is(t, inner.Release(), ErrLost)
		is(t, outer.Release(), ErrLost)
		is(t, released.Release(), ErrReleased)
		same(t, "calls", s.ops(), "ask renew")
	})
}

// The prover found this: a process that had been stopped re-entered before its timers fired, and got another token.
func TestReentry_ALostLeaseWithALateTimerClaimsNothing(t *testing.T) {
	for _, reentrant := range []Switch{On, Off} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			l := locker(t, s, &Options{Reentrant: reentrant})
			lease := lock(t, l, "n")
			ctx := lease.Context(t.Context())
			asked := len(s.made("ask", "try"))
			suspend(time.Minute) // the timer is late
			defer suspend(-time.Minute)
			_, err := l.Mutex("n").TryLock(ctx)
			is(t, err, context.Canceled)
			is(t, context.Cause(ctx), ErrLost)
			same(t, "asks", len(s.made("ask", "try")), asked)
			// A caller that has detached the context from the lease can claim the name.
			if _, err := l.Mutex("n").TryLock(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, ErrHeld) {
				t.Error(err)
			}
			same(t, "asks", len(s.made("ask", "try")), asked+1)
		})
	}
}

// At the deadline all leases end by the clock, whatever their timers do.
func TestReentry_AReleaseAfterTheDeadlineIsALossForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		m := reentrant(t, s).Mutex("a")
		outer := take(t, t.Context(), m.Lock)
		inner := take(t, outer.Context(t.Context()), m.Lock)
		suspend(time.Minute)
		is(t, inner.Release(), ErrLost)
		if outer.Valid() || !over(outer.Lost()) {
			t.Fatal("the outer lease is valid, or its loss is not reported")
		}
		is(t, outer.Release(), ErrLost)
	})
}

// Only the release of all leases says that the work has ended.
func TestReentry_ABrokenHoldIsFreedByTheLastRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		m := reentrant(t, s).Mutex("a")
		outer := take(t, t.Context(), m.Lock)
		inner := take(t, outer.Context(t.Context()), m.Lock)
		e := stored(s.mem, "a").Entries[0]
		if err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "fire"}); err != nil {
			t.Fatal(err)
		}
		<-outer.Lost()
		is(t, outer.Release(), ErrLost)
		is(t, outer.Release(), ErrLost) // counts once
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		is(t, inner.Release(), ErrLost)
		empty(t, s.mem)
	})
}

func TestReentry_CloseEndsAllLeasesAndGivesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := reentrant(t, s)
		outer := take(t, t.Context(), locks.Mutex("a").Lock)
		ctx := outer.Context(t.Context())
		inner := take(t, ctx, locks.Mutex("a").Lock)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, context.Cause(ctx), ErrReleased, ErrClosed)
		is(t, inner.Release(), ErrClosed)
		_, err := locks.Mutex("a").Lock(context.WithoutCancel(ctx))
		is(t, err, ErrClosed)
		same(t, "calls", s.ops(), "ask release all")
		empty(t, s.mem)
	})
}

// Eight goroutines that share the lease's context are all its holder.
func TestReentry_FanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		plain := locker(t, withNotifications{s}, nil)
		for _, again := range []bool{false, true} {
			m := plain.With(&Options{Reentrant: map[bool]Switch{true: On, false: Off}[again]}).Mutex("a")
			var inside, refused atomic.Int64
			together := false
			err := m.Do(t.Context(), func(ctx context.Context) error {
				calls := len(s.made())
				var eight sync.WaitGroup
				for range 8 {
					eight.Go(func() {
						err := m.Do(ctx, func(ctx context.Context) error {
							if inside.Add(1) == 8 {
								together = true
							}
							time.Sleep(time.Second) // in a bubble: until all have got here
							inside.Add(-1)
							return ctx.Err()
						})
						if errors.Is(err, ErrDeadlock) {
							refused.Add(1)
						} else if err != nil {
							t.Error(err)
						}
					})
				}
				eight.Wait()
				same(t, "calls", len(s.made()), calls)
				same(t, "entries", len(stored(s.mem, "a").Entries), 1)
				return ctx.Err()
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "all eight at once", together, again)
			same(t, "refused", refused.Load(), map[bool]int64{true: 0, false: 8}[again])
			empty(t, s.mem)
		}
	})
}

// A race: a claim that enters while the others leave re-enters, or gets its own hold.
func TestReentry_EnteringAsTheLastOneLeavesLosesNothing(t *testing.T) {
	s := newLink(t)
	m := reentrant(t, withNotifications{s}).Mutex("a")
	for range 300 {
		outer := take(t, t.Context(), m.Lock)
		ctx := context.WithoutCancel(outer.Context(t.Context()))
		var both sync.WaitGroup
		both.Go(func() {
			if err := outer.Release(); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			l, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if n := len(stored(s.mem, "a").Entries); n != 1 || !l.Valid() {
				t.Errorf("after the grant: valid %v, %d entries", l.Valid(), n)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if t.Failed() {
			return
		}
	}
	empty(t, s.mem)
}

// Rule 6: only the last release hands the hold over inside the process.
func TestReentry_TheLastReleaseHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		m := reentrant(t, withNotifications{s}).Mutex("a")
		outer := take(t, t.Context(), m.Lock)
		inner := take(t, outer.Context(t.Context()), m.Lock)
		next := waits(t, m.Lock)
		calls := len(s.made())
		release(t, outer)
		next.waiting()
		release(t, inner)
		l := next.got()
		if l.Token() <= inner.Token() {
			t.Fatalf("handed over with token %d, want one larger than %d", l.Token(), inner.Token())
		}
		again := take(t, l.Context(t.Context()), m.Lock)
		same(t, "token", again.Token(), l.Token())
		same(t, "calls", len(s.made()), calls)
		// The lease before cannot enter the hold any more.
		_, err := m.TryLock(context.WithoutCancel(inner.Context(outer.Context(t.Context()))))
		is(t, err, ErrHeld)
		release(t, l)
		release(t, again)
		empty(t, s.mem)
	})
}
