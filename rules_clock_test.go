package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// ends is when a hold of ttl that counts from the instant ends for its
// owner, by rule 1.
func ends(from time.Time, ttl time.Duration) time.Time {
	return from.Add(ttl*99/100 - 2*time.Millisecond)
}

func TestRule1_ClockBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate { return fate{there: time.Second, back: 2 * time.Second} })
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		same(t, "the ask took", time.Since(start), 3*time.Second)
		same(t, "deadline", l.Deadline(), ends(start, 30*time.Second))
		if e := stored(s.mem, "a").Entries[0]; time.Until(l.Deadline()) >= e.Expires {
			t.Fatalf("ours until %v, the store's until %v", time.Until(l.Deadline()), e.Expires)
		}
		time.Sleep(time.Until(l.Deadline()) - 1)
		if !l.Valid() {
			t.Fatal("not valid just before the deadline")
		}
		release(t, l)
	})
}

func TestRule1_ARenewalCountsFromItsSending(t *testing.T) {
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
		time.Sleep(11 * time.Second)
		same(t, "deadline, renewal under way", l.Deadline(), ends(start, 30*time.Second))
		time.Sleep(2 * time.Second)
		same(t, "deadline", l.Deadline(), ends(start.Add(10*time.Second), 30*time.Second))
	})
}

func TestRule1_TheAnsweredOneOfRepeatedAsksCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "try" && c.n < 3 {
				return fate{back: time.Second, lose: errLink}
			}
			return fate{back: time.Second}
		})
		l := lock(t, locker(t, s, nil), "a")
		asks := s.made("try")
		same(t, "asks", len(asks), 4)
		same(t, "deadline", l.Deadline(), ends(asks[3].sent, 30*time.Second))
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
	})
}

// On stores with sessions a hold counts from the session's last answered renewal, and
// its TTL is the session's.
func TestRule1_TheAnswerCarriesTheInstantAndTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			from := store.Now().Add(-2 * time.Second) // the session's last answered renewal
			return fate{
				answer: func(a *store.Answer) { a.From, a.TTL = from, 10*time.Second },
				renew:  func(_ int, r *store.Renewal) { r.From, r.TTL = from, 12*time.Second },
			}
		})
		l := lock(t, locker(t, s, nil), "a")
		same(t, "deadline of the grant", l.Deadline(), ends(s.made("try")[0].sent.Add(-2*time.Second), 10*time.Second))
		time.Sleep(3 * time.Second)
		same(t, "renewals", len(s.made("renew")), 1)
		same(t, "deadline of the renewal", l.Deadline(), ends(s.made("renew")[0].sent.Add(-2*time.Second), 12*time.Second))
	})
}

func TestRule1_AGrantAnsweredAfterItsDeadlineIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "try" && c.n == 0 {
				return fate{back: 995 * time.Millisecond}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, &Options{TTL: time.Second}), "a")
		if !l.Valid() {
			t.Fatal("returned a lease that has expired")
		}
		asks := s.made("try")
		same(t, "asks", len(asks), 2)
		same(t, "deadline", l.Deadline(), ends(asks[1].sent, time.Second))
		release(t, l)
		empty(t, s.mem)
	})
}

// B133.
func TestRule1_AStoreSlowerThanTheTTLIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "withdraw" {
				return fate{}
			}
			return fate{back: 995 * time.Millisecond}
		})
		_, err := locker(t, s, &Options{TTL: time.Second}).Mutex("a").TryLock(t.Context())
		is(t, err, ErrUnavailable)
		synctest.Wait()
		empty(t, s.mem)
	})
}

// This test does not replace the clock: the engine must work in a user's bubble, too.
func TestRule1_TheBootClockStandsStillInABubble(t *testing.T) {
	faked := clock.Slept
	clock.Slept = realSlept
	defer func() { clock.Slept = faked }()
	synctest.Test(t, func(t *testing.T) {
		before := clock.Now()
		if before <= 0 {
			t.Fatal("an instant in a bubble is before the zero Instant")
		}
		time.Sleep(time.Hour)
		if off := clock.Now().Sub(before) - time.Hour; off.Abs() > engine.Margin/2 {
			t.Fatalf("an hour is off by %v", off)
		}
	})
}

func TestRule1_TheTimeSuspendedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		before := l.Deadline()
		suspend(25 * time.Second)
		same(t, "deadline", l.Deadline(), before.Add(-25*time.Second))
		if !l.Valid() {
			t.Fatal("not valid 4 seconds before the deadline")
		}
		suspend(5 * time.Second)
		if l.Valid() {
			t.Fatal("valid although the machine was suspended past the deadline")
		}
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try")
	})
}

func TestRule2_ATimerEndsTheLeaseWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		lost := l.Lost()
		ctx := l.Context(t.Context())
		time.Sleep(time.Until(ends(start, 30*time.Second)) - 1)
		if over(lost) || ctx.Err() != nil || !l.Valid() {
			t.Fatal("lost before the deadline")
		}
		<-lost
		same(t, "the loss is reported at", time.Now(), ends(start, 30*time.Second))
		<-ctx.Done()
		is(t, context.Cause(ctx), ErrLost)
		same(t, "context ended", time.Now(), ends(start, 30*time.Second))
		if l.Valid() {
			t.Fatal("valid after the deadline")
		}
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try renew")
		close(hang)
	})
}

func TestRule2_AnAnswerAfterTheDeadlineRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(31 * time.Second)
		close(hang)
		synctest.Wait()
		if l.Valid() || !over(l.Lost()) {
			t.Fatal("an answer after the deadline revived the lease")
		}
		time.Sleep(time.Minute)
		same(t, "calls", s.ops(), "try renew")
	})
}

// The machine slept while a renewal was under way, and the answer is read
// before any timer fires: the clock is checked first.
func TestRule2_TheClockIsReadBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		l := lock(t, locker(t, s, nil), "a")
		time.Sleep(10*time.Second + 100*time.Millisecond)
		same(t, "calls", s.ops(), "try renew")
		suspend(20 * time.Second)
		close(hang)
		synctest.Wait()
		if l.Valid() || !over(l.Lost()) {
			t.Fatal("an answer after the deadline revived the lease")
		}
	})
}

func TestRule2_AfterASuspendTheLossIsReportedInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock(t, locker(t, newLink(t), nil), "a")
		time.Sleep(5*time.Second + 300*time.Millisecond)
		suspend(time.Hour)
		woke := time.Now()
		if l.Valid() {
			t.Fatal("Valid waits for a timer")
		}
		<-l.Lost()
		if late := time.Since(woke); late > time.Second {
			t.Fatalf("reported %v after the machine woke", late)
		}
	})
}

// A store whose clock is wrong by a year works as well: only durations cross the
// contract.
func TestRule9_TheStoresClockIsNeverComparedWithTheLocal(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, off := range []time.Duration{-year, year} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			q := &skewed{off: off}
			a, b := locker(t, q, nil), locker(t, q, nil)
			l := lock(t, a, "a")
			same(t, "deadline", l.Deadline(), ends(begin, 30*time.Second))
			time.Sleep(25 * time.Second) // it was renewed twice
			same(t, "deadline", l.Deadline(), ends(begin.Add(20*time.Second), 30*time.Second))
			_, err := b.Mutex("a").TryLock(t.Context())
			held := heldBy(t, err)
			same(t, "since", held.Since, begin)
			same(t, "expires", held.Expires, begin.Add(50*time.Second))
			release(t, l)
			release(t, lock(t, b, "a"))
		})
	}
}
