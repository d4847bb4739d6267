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

func TestClockBeforeTheCall(t *testing.T) { // rule 1
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate { return fate{there: time.Second, back: 2 * time.Second} })
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		same(t, "time of the ask", time.Since(start), 3*time.Second)
		same(t, "deadline", l.Deadline(), ends(start, 30*time.Second))
		if e := stored(s.mem, "a").Entries[0]; time.Until(l.Deadline()) >= e.Expires {
			t.Fatalf("the lease ends in %v, but the store's entry in %v; want the lease to end first", time.Until(l.Deadline()), e.Expires)
		}
		time.Sleep(time.Until(l.Deadline()) - 1)
		if !l.Valid() {
			t.Fatal("the lease is not valid just before its deadline")
		}
		release(t, l)
	})
}

func TestARenewalCountsFromItsSending(t *testing.T) { // rule 1
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
		same(t, "deadline while a renewal is running", l.Deadline(), ends(start, 30*time.Second))
		time.Sleep(2 * time.Second)
		same(t, "deadline", l.Deadline(), ends(start.Add(10*time.Second), 30*time.Second))
	})
}

func TestTheAnsweredOneOfRepeatedAsksCounts(t *testing.T) { // rule 1
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
func TestTheAnswerCarriesTheInstantAndTheTTL(t *testing.T) { // rule 1
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

func TestAGrantAnsweredAfterItsDeadlineIsAskedForAgain(t *testing.T) { // rule 1
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
			t.Fatal("got a lease that has expired")
		}
		asks := s.made("try")
		same(t, "asks", len(asks), 2)
		same(t, "deadline", l.Deadline(), ends(asks[1].sent, time.Second))
		release(t, l)
		empty(t, s.mem)
	})
}

// B133.
func TestAStoreSlowerThanTheTTLIsUnavailable(t *testing.T) { // rule 1
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
func TestTheBootClockStandsStillInABubble(t *testing.T) { // rule 1
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
			t.Fatalf("an hour in a bubble is off by %v", off)
		}
	})
}

func TestTheTimeSuspendedCounts(t *testing.T) { // rule 1
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		before := l.Deadline()
		suspend(25 * time.Second)
		same(t, "deadline", l.Deadline(), before.Add(-25*time.Second))
		if !l.Valid() {
			t.Fatal("the lease is not valid 4 seconds before its deadline")
		}
		suspend(5 * time.Second)
		if l.Valid() {
			t.Fatal("the lease is valid, although the machine was suspended past its deadline")
		}
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try")
	})
}

func TestATimerEndsTheLeaseWhileARenewalHangs(t *testing.T) { // rule 2
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
			t.Fatal("the lease was lost before its deadline")
		}
		<-lost
		same(t, "time when the loss is reported", time.Now(), ends(start, 30*time.Second))
		<-ctx.Done()
		is(t, context.Cause(ctx), ErrLost)
		same(t, "time when the context ends", time.Now(), ends(start, 30*time.Second))
		if l.Valid() {
			t.Fatal("the lease is valid after its deadline")
		}
		is(t, l.Release(), ErrLost)
		same(t, "calls", s.ops(), "try renew")
		close(hang)
	})
}

func TestAnAnswerAfterTheDeadlineRevivesNothing(t *testing.T) { // rule 2
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
			t.Fatal("an answer after the deadline made the lease valid again")
		}
		time.Sleep(time.Minute)
		same(t, "calls", s.ops(), "try renew")
	})
}

// The machine slept while a renewal was under way, and the answer is read
// before any timer fires: the clock is checked first.
func TestTheClockIsReadBeforeTheAnswer(t *testing.T) { // rule 2
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
			t.Fatal("an answer after the deadline made the lease valid again")
		}
	})
}

func TestAfterASuspendTheLossIsReportedInASecond(t *testing.T) { // rule 2
	synctest.Test(t, func(t *testing.T) {
		l := lock(t, locker(t, newLink(t), nil), "a")
		time.Sleep(5*time.Second + 300*time.Millisecond)
		suspend(time.Hour)
		woke := time.Now()
		if l.Valid() {
			t.Fatal("the lease is valid after the suspend: Valid waits for a timer")
		}
		<-l.Lost()
		if late := time.Since(woke); late > time.Second {
			t.Fatalf("the loss was reported %v after the resume, want at most 1s", late)
		}
	})
}

// A store whose clock is wrong by a year works as well: only durations cross the
// contract.
func TestTheStoresClockIsNeverComparedWithTheLocal(t *testing.T) { // rule 9
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
