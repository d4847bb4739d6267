package record_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// Law 3.
func TestAnUnansweredSwapIsVoidOnceItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("used_before_%v", used), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				p, q := start(t, m, false), start(t, m, false)
				if used {
					q.releases(q.takes(q.claim()))
				}
				c := p.claim()
				p.once(recordtest.OpSwap, 1, recordtest.Late)
				p.unanswered(c)
				p.givesUp(c)
				if m.Deliver() != 1 {
					t.Fatal("no late request was delivered")
				}
				q.lists()
				q.takes(q.claim(try))
			})
		})
	}
}

// Law 3: a claim can be asked for again in a shorter session.
func TestAnUnansweredSwapIsVoidOnceItsClaimIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		c := p.claim(lasting(3 * time.Minute))
		p.once(recordtest.OpSwap, 1, recordtest.Late)
		p.unanswered(c)
		h := q.takes(q.claim()) // a late request cannot be done any more, or only if the name is unchanged
		c.TTL = time.Minute
		p.waits(c)
		m.Deliver()
		p.givesUp(c)
		q.lists(h.ID)
	})
}

// Law 3.
func TestAnUnansweredJoinIsVoidOnceItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(void.o)
				p, q := start(t, m, false), start(t, m, false)
				h := q.takes(q.claim())
				p.waits(p.claim()) // so that it has a session to wait in
				q.waits(q.claim()) // so that the record that p remembers is old
				c := p.claim()
				p.once(void.join, 1, recordtest.Late)
				p.unanswered(c)
				p.givesUp(c)
				if m.Deliver() != 1 {
					t.Fatal("no late request was delivered")
				}
				q.releases(h) // takes in what is in the inbox
				q.waits(q.claim())
				for _, id := range q.entries() {
					if id == c.ID {
						t.Fatal("a claim that was given up came back with its note")
					}
				}
			})
		})
	}
}

// Law 3.
func TestAJoinThatIsDoneTwiceIsTakenInOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(voids[2].o)
		p, q := start(t, m, false), start(t, m, false)
		h := q.takes(q.claim())
		p.waits(p.claim())
		q.waits(q.claim())
		c := p.claim()
		p.once(recordtest.OpJoin, 1, recordtest.Twice)
		p.waits(c)
		p.givesUp(c)
		if m.Deliver() != 1 {
			t.Fatal("no request was delivered twice")
		}
		q.releases(h)
		q.waits(q.claim())
		for _, id := range q.entries() {
			if id == c.ID {
				t.Fatal("a claim that was given up came back with a copy of its note")
			}
		}
	})
}

// The reply to a release may be lost.
func TestAnUnansweredReleaseIsStillDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, true)
		h := p.takes(p.claim())
		c := q.claim()
		q.waits(c)
		p.once(recordtest.OpSwap, 1, recordtest.Lost)
		if err := p.Release(t.Context(), h); err == nil {
			t.Fatal("the release succeeded, want no answer")
		}
		until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
	})
}

// An operation without a waiting caller must not be done after the release that gives it up.
func TestAnAbandonedAskIsNotDoneAfterItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := q.takes(q.claim())
		p.waits(p.claim()) // so that it has sessions, and knows the name
		first, second := make(chan struct{}), make(chan struct{})
		met := make(chan int, 8)
		var requests atomic.Int32
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op != recordtest.OpLoad && r.Op != recordtest.OpSwap {
				return recordtest.Answered
			}
			switch n := requests.Add(1); n {
			case 1: // of the first ask: two more claims come behind it
				met <- 1
				<-first
			case 2: // the requests of these two
				met <- 2
				<-second
				q.writes(h) // it is refused, and tried again
			}
			return recordtest.Answered
		})
		other := p.claim(try)
		var all sync.WaitGroup
		all.Go(func() { _, _ = p.Ask(t.Context(), other) })
		<-met
		stays, goes := p.claim(), p.claim()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		all.Go(func() { _, _ = p.Ask(t.Context(), stays) })
		go func() {
			defer close(left)
			_, _ = p.Ask(ctx, goes)
		}()
		until(t, "both calls wait", func() bool { return p.WaitingForTest(at) == 2 })
		close(first)
		<-met
		cancel()
		<-left
		all.Go(func() { p.givesUp(goes) })
		until(t, "the call that withdraws waits", func() bool { return p.WaitingForTest(at) == 1 })
		close(second)
		all.Wait()
		if ids := q.entries(); slices.Contains(ids, goes.ID) || ids[0] != h.ID {
			t.Fatalf("%v is in the list, although it was given up", goes.ID)
		}
	})
}

// Law 3: an inbox that was not read to its end does not prove that a note is missing.
func TestAClaimThatGivesUpLeavesNoNoteInALongInbox(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(void.o)
				q := start(t, m, false)
				h := q.takes(q.claim())
				var crowd []*process
				for range 2*record.MaxNotes + 8 { // so that two reads do not return all
					crowd = append(crowd, start(t, m, false))
				}
				for _, p := range crowd {
					p.givesUp(p.claim()) // so that it knows the name
					p.givesUpWaiting()
				}
				last := start(t, m, false)
				last.givesUpWaiting()
				q.writes(h) // the record that all of them remember is old now
				for _, p := range crowd {
					p.joinsAndHangs(void.o.Apart)
				}
				c := last.claim()
				last.waits(c)
				last.givesUp(c)
				q.releases(h)
				for range 4 {
					_, _ = q.Ask(t.Context(), q.claim())
				}
				if ids := q.entries(); slices.Contains(ids, c.ID) {
					t.Fatal("a claim that was given up came back with its note")
				}
			})
		})
	}
}

// holdsBeside is a process that holds the name and another one, so that its session continues, and a process whose claim waits for the name.
func holdsBeside(t *testing.T, ttl time.Duration) (p, q *process, h store.Hold, c store.Claim) {
	t.Helper()
	m := recordtest.NewMemory(recordtest.Options{MinTTL: time.Second})
	p, q = start(t, m, false), start(t, m, true)
	p.takes(p.claim(lasting(ttl), func(c *store.Claim) { c.Name = "another" }))
	h, c = p.takes(p.claim(lasting(ttl))), q.claim()
	q.waits(c)
	return p, q, h, c
}

// If a release fails, its process takes the claim out. If that request is lost, too, it is repeated soon, as others wait for the name.
func TestAHungRemovalDoesNotBlockForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Second
		p, q, h, c := holdsBeside(t, ttl)
		var swaps, hung atomic.Int32
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			switch {
			case r.Op == recordtest.OpSwap && swaps.Add(1) == 1:
				return recordtest.Lost
			case swaps.Load() > 0 && (r.Op == recordtest.OpSwap || r.Op == recordtest.OpLoad) && hung.Add(1) == 1:
				return recordtest.Hangs
			}
			return recordtest.Answered
		})
		began := time.Now()
		if err := p.Release(t.Context(), h); err == nil {
			t.Fatal("the release succeeded, want no answer")
		}
		until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
		if d := time.Since(began); d > ttl || hung.Load() < 2 {
			t.Errorf("granted after %v and %d requests, want within %v, although one request hangs", d, hung.Load(), ttl)
		}
	})
}

// A caller that releases in vain again and again does not delay that: once the server answers, the name is free soon.
func TestAReleaseThatIsTriedOftenIsDoneSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{2 * time.Second, time.Minute} {
		t.Run(fmt.Sprintf("a_TTL_of_%v", ttl), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, q, h, c := holdsBeside(t, ttl)
				p.client.Cut()
				const lasts = 800 * time.Millisecond
				for range 100 {
					if err := p.Release(t.Context(), h); err == nil {
						t.Fatal("the release succeeded, want no answer")
					}
					time.Sleep(lasts / 100)
				}
				p.client.Mend()
				began := time.Now()
				until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
				if d := time.Since(began); d > lasts {
					t.Errorf("granted after %v, want at most the time of the outage, %v", d, lasts)
				}
			})
		})
	}
}

// However long the server was away, and whatever has failed meanwhile.
func TestARemovalPausesForNoMoreThanAQuarterOfTheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 4 * time.Second
		p, q, h, c := holdsBeside(t, ttl)
		p.client.Fates(func(r recordtest.Request) recordtest.Fate { // its session is renewed
			if r.Op == recordtest.OpSwap || r.Op == recordtest.OpLoad {
				return recordtest.Lost
			}
			return recordtest.Answered
		})
		if err := p.Release(t.Context(), h); err == nil {
			t.Fatal("the release succeeded, want no answer")
		}
		time.Sleep(2 * ttl) // so that it has failed many times
		q.waits(c)
		p.client.Fates(nil)
		began := time.Now()
		until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
		if d := time.Since(began); d > ttl/4 {
			t.Errorf("granted after %v, want within %v", d, ttl/4)
		}
	})
}

// A hold that has ended is taken out by its process, which tries until that is done or all waiters have asked again. If the
// server does not report ends of sessions, no other process notifies the waiters.
func TestAFailedRemovalIsRepeatedAsLongAsOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Silent: true, Life: session.ByServerClock, MinTTL: time.Second})
		p, q := start(t, m, false), start(t, m, true)
		p.takes(p.claim(lasting(time.Second)))
		p.client.Fates(func(recordtest.Request) recordtest.Fate { return recordtest.Lost })
		c := q.claim()
		q.waits(c)
		time.Sleep(5 * time.Second) // it has ended, and taking it out has failed
		p.client.Fates(nil)
		time.Sleep(time.Second)
		if !q.heard(c.ID) {
			t.Error("the waiter is not notified")
		}
	})
}

// If a release fails, the claim is taken out as soon as the caller has the error, not when another process reads the name.
func TestAnUnansweredReleaseIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, true)
		h := p.takes(p.claim())
		c := q.claim()
		q.waits(c)
		p.once(recordtest.OpSwap, 1, recordtest.Lost)
		synctest.Wait() // until no work is due
		began := time.Now()
		if err := p.Release(t.Context(), h); err == nil {
			t.Fatal("the release succeeded, want no answer")
		}
		until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("granted after %v, want at once", d)
		}
	})
}

// A repeated release does what the first try should have done, not what a release with token 0 does.
func TestAReleaseThatIsRepeatedKeepsTheMinimumHold(t *testing.T) {
	t.Parallel()
	for _, o := range []recordtest.Options{{}, {Blind: true}} {
		for _, fate := range []recordtest.Fate{recordtest.Lost, recordtest.Unanswered, recordtest.Late} {
			t.Run(fmt.Sprintf("blind_%v_fate_%d", o.Blind, fate), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const keep = 20 * time.Second
					m := recordtest.NewMemory(o)
					p, q := start(t, m, false), start(t, m, false)
					h := p.takes(p.claim(func(c *store.Claim) { c.MinHold = keep }))
					began := time.Now()
					if r := p.renews(h); r.Err != nil {
						t.Fatal(r.Err)
					}
					p.once(recordtest.OpSwap, 1, fate)
					if err := p.Release(t.Context(), h); err == nil {
						t.Fatal("the release succeeded, want no answer")
					}
					if err := p.Release(t.Context(), h); err != nil && fate != recordtest.Unanswered {
						t.Errorf("release again: %v", err)
					}
					until(t, "another is granted", func() bool { return q.ask(q.claim(try)).Granted })
					if d := time.Since(began); d < keep || d > keep+time.Second {
						t.Errorf("granted after %v, want %v", d, keep)
					}
				})
			})
		}
	}
}

// The owner has released it, or never had it: it has not expired.
func TestAnUnansweredReleaseLeavesNoLockDelay(t *testing.T) {
	t.Parallel()
	for _, withdrawn := range []bool{false, true} {
		t.Run(fmt.Sprintf("withdrawn_%v", withdrawn), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				p, q := start(t, m, false), start(t, m, false)
				h := p.takes(p.claim(func(c *store.Claim) { c.LockDelay = time.Minute }))
				if withdrawn {
					h.Token = 0
				}
				p.once(recordtest.OpSwap, 1, recordtest.Lost)
				if err := p.Release(t.Context(), h); err == nil {
					t.Fatal("the release succeeded, want no answer")
				}
				began := time.Now()
				until(t, "another is granted", func() bool { return q.ask(q.claim(try)).Granted })
				if d := time.Since(began); d > time.Second {
					t.Errorf("granted after %v, want within 1s", d)
				}
			})
		})
	}
}
