package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// Law 1.
func TestAGrantCountsFromTheSessionOfItsEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p := start(t, m, false)
		c := p.claim(lasting(3 * time.Minute))
		p.once(recordtest.OpSwap, 1, recordtest.Unanswered)
		p.unanswered(c)
		p.all(recordtest.Lost, recordtest.OpRenew) // so that the start of its time is visible
		before := store.Now()
		c.TTL = time.Minute // another session, which is begun now
		a := p.ask(c)
		if !a.Granted || a.From > before {
			t.Fatalf("got %+v: it counts from %v after the session of its entry began", a, a.From.Sub(before))
		}
	})
}

// Law 1.
func TestAGrantLastsNoLongerThanItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		c := q.claim()
		if w := q.waits(c); w.From == 0 {
			t.Fatal("the answer to a waiter does not say from when its position counts")
		}
		p.releases(h)
		if a := q.ask(c); !a.Granted || a.TTL > store.MaxPositionTTL || a.From == 0 {
			t.Fatalf("granted in the session for waiters: got %+v, want at most %v", a, store.MaxPositionTTL)
		}
	})
}

// Law 2.
func TestAnExpiredSessionEndsAllItsClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		takes := func(what string, ttl time.Duration) (h store.Hold, ok bool) {
			t.Helper()
			c := p.claim(lasting(ttl), func(c *store.Claim) { c.Name = what + " of " + ttl.String() })
			a, err := p.Ask(t.Context(), c)
			if err != nil && !errors.Is(err, store.ErrLost) {
				t.Fatal(err)
			}
			return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: ttl}, a.Granted
		}
		var h, k store.Hold
		together := false
		for ttl := 200 * time.Millisecond; !together; ttl *= 2 { // more if the machine stalls until both are granted, or between the two
			var one, other bool
			h, one = takes("one", ttl)
			k, other = takes("other", ttl)
			together = one && other && p.TogetherForTest(h.ID, k.ID)
		}
		p.all(recordtest.Lost, recordtest.OpRenew, recordtest.OpEnd)
		c := q.claim(func(c *store.Claim) { c.Name = h.Name })
		until(t, "another is granted", func() bool { return q.ask(c).Granted })
		until(t, "the session has expired", func() bool { // if the machine stalled, the session was renewed after the grant, and the hold was not
			lives := m.Sessions()
			return !slices.ContainsFunc(p.Sessions(), func(id session.ID) bool { return slices.Contains(lives, id) })
		})
		for _, hold := range []store.Hold{h, k} {
			if r := p.renews(hold); !errors.Is(r.Err, store.ErrLost) {
				t.Fatalf("renewal: got %+v, want lost: its session has expired", r)
			}
		}
	})
}

// Law 2.
func TestNoEntryIsSkippedBeforeItsSessionIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		p.client.Cut() // for all other processes it is dead
		q.waits(q.claim())
		if a := q.ask(q.claim(try)); a.Granted {
			t.Fatal("granted while another holds it in a living session")
		}
		p.client.Mend()
		if r := p.renews(h); r.Err != nil {
			t.Fatal(r.Err)
		}
	})
}

// The comparison with the rule ends all sessions of a process at one moment. A process that trusts for a
// second that one of them lives, and knows that another has ended, would grant the dead waiter. Then the
// waiter's lock delay would block the name, as after any hold whose owner has died.
func TestAFullCheckSkipsAllThatEndedAtOneMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Silent: true})
		p, q := start(t, m, false), start(t, m, false)
		q.DoubtForTest()
		h := p.takes(p.claim())
		dead := p.claim(func(c *store.Claim) { c.LockDelay = time.Minute })
		p.waits(dead)
		c := q.claim()
		q.waits(c)
		q.lists(h.ID, dead.ID, c.ID) // so that it has seen each session alive
		m.Lapse(p.Sessions()...)
		if a := q.ask(c); !a.Granted {
			t.Fatalf("refused: %+v", a)
		}
	})
}

// Law 4.
func TestAnAnswerIsNeverWhatIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := q.takes(q.claim())
		c := p.claim()
		p.waits(c)
		p.waits(c) // it remembers that it waits
		q.releases(h)
		if a := p.ask(c); !a.Granted {
			t.Fatalf("got the old answer %+v", a)
		}
	})
}

// Law 2. A session that is known to live is not skipped, even if less of it is left than the record's clock can measure.
func TestASessionWithAMomentLeftIsNotSkipped(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{-time.Second: 0, -time.Nanosecond: 0, 0: 0, 1: 1, 999: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second: 1e6} {
		if have := record.LeftForTest(d); have != want {
			t.Errorf("with %v left: got %d µs, want %d", d, have, want)
		}
	}
}

// Law 7.
func TestALostRaceIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		var races atomic.Int32
		race := func(req recordtest.Request) recordtest.Fate {
			if req.Op == recordtest.OpSwap && races.Add(1) <= 60 {
				q.readsOnce()
			}
			return recordtest.Answered
		}
		h := p.takes(p.claim(func(c *store.Claim) { c.Weight = 1 }))
		p.client.Fates(race)
		p.releases(h)
		if races.Load() < 60 {
			t.Fatalf("only %d races were lost, too few to prove anything", races.Load())
		}
	})
}

// Law 7. A waiter must continue in a crowd, so it must distinguish that from an outage.
func TestAnAskThatLosesAllRacesIsContended(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprintf("answers=%t", answers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				p, q := start(t, m, false), start(t, m, false)
				ctx, cancel := context.WithCancel(t.Context())
				var swaps atomic.Int32
				h := p.takes(p.claim(func(c *store.Claim) { c.Weight = 1 })) // so that the next begins in a session
				p.client.Fates(func(req recordtest.Request) recordtest.Fate {
					if req.Op != recordtest.OpSwap {
						return recordtest.Answered
					}
					if n := swaps.Add(1); n == 10 || !answers {
						cancel()
					}
					if !answers {
						return recordtest.Lost
					}
					q.readsOnce()
					return recordtest.Answered
				})
				c := p.claim(try, func(c *store.Claim) { c.Weight = 1 })
				_, err := p.Ask(ctx, c)
				if errors.Is(err, store.ErrContended) != answers || errors.Is(err, store.ErrUnavailable) == answers || store.Definite(err) {
					t.Fatalf("%v", err)
				}
				p.client.Fates(nil)
				p.takes(c) // only its own note can be left
				p.releases(h)
			})
		})
	}
}

// Law 10.
func TestAHoldLeavesTheShortSessionWithItsFirstRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		k := q.takesAfter(p)
		r := q.renews(k)
		if r.Err != nil || r.TTL != time.Minute {
			t.Fatalf("got %+v, want renewed for a minute", r)
		}
		q.LapseShortForTest(m, store.MaxPositionTTL)
		if r := q.renews(k); r.Err != nil {
			t.Fatalf("renewal: got %v, want nil: the hold no longer depends on the short session", r.Err)
		}
	})
}

// While the server does not answer for the name, but for the sessions, a hold that moves from one
// session to the other is renewed in both, and no longer than either lasts.
func TestAHoldWithAnUnansweredMoveIsRenewedInBothSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for fate, broken := range map[recordtest.Fate]bool{recordtest.Lost: false, recordtest.Unanswered: true} {
			m := recordtest.NewMemory(recordtest.Options{})
			p, q := start(t, m, false), start(t, m, false)
			k := q.takesAfter(p)
			q.once(recordtest.OpSwap, 1, fate)
			if r := q.renews(k); r.Err == nil {
				t.Fatalf("got %+v, although the longer session was not renewed since", r)
			}
			q.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap)
			for range 3 {
				sent := store.Now()
				if r := q.renews(k); r.Err != nil || r.TTL > store.MaxPositionTTL || r.Weight != store.Full {
					t.Fatalf("got %+v, want renewed for as long as the short session", r)
				}
				if ends := q.EndsForTest(k.ID); ends < sent.Add(k.TTL) {
					t.Fatalf("the hold is removed %v after a renewal for %v", ends.Sub(sent), k.TTL)
				}
			}
			if !broken {
				longer := k // a third session: it is unknown which of them keeps the hold
				longer.TTL *= 2
				for range 2 {
					if r := q.renews(longer); r.Err == nil {
						t.Fatalf("got %+v, although the move to a third session was not answered", r)
					}
				}
				continue
			}
			if err := p.BreakHold(t.Context(), store.Break{Name: at, ID: k.ID, Token: k.Token, Reason: "test"}); err != nil {
				t.Fatal(err)
			}
			if r := q.renews(k); r.Err == nil {
				t.Fatalf("got %+v after a break", r)
			}
		}
	})
}

// Law 10.
func TestAHoldWithAnUnansweredMoveEndsWithTheShortSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		k := q.takesAfter(p)
		q.once(recordtest.OpSwap, 1, recordtest.Late)
		if r := q.renews(k); r.Err == nil {
			t.Fatal("the renewal succeeded, want no answer")
		}
		q.LapseShortForTest(m, store.MaxPositionTTL)
		if r := q.renews(k); !errors.Is(r.Err, store.ErrLost) {
			t.Fatalf("renewal: got %+v, want lost", r)
		}
		m.Deliver() // it may be in the long session now
		next := p.claim()
		until(t, "the next is granted", func() bool { return p.ask(next).Granted })
	})
}

// Law 10.
func TestAHoldWithAnUnansweredMoveEndsWithTheLongSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		k := q.takesAfter(p)
		q.once(recordtest.OpSwap, 1, recordtest.Unanswered)
		if r := q.renews(k); r.Err == nil {
			t.Fatal("the renewal succeeded, want no answer")
		}
		q.LapseShortForTest(m, time.Minute)
		if r := q.renews(k); !errors.Is(r.Err, store.ErrLost) {
			t.Fatalf("renewal: got %+v, want lost", r)
		}
	})
}

// Without a clock a minimum hold is a session of its own.
func TestAMinimumHoldNeedsNoClockOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Blind: true})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim(func(c *store.Claim) { c.MinHold = time.Minute }))
		h.Used = h.Token
		p.releases(h)
		if a := q.ask(q.claim(try)); a.Granted {
			t.Fatal("granted during the minimum hold of another")
		}
	})
}

// Law 5: a process that begins with a write on an unknown name must have read the server's clock recently.
func TestAStoreWithoutARecentClockReadsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p := start(t, m, false)
		p.takes(p.claim(func(c *store.Claim) { c.Name = "another" }))
		loads := 0
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpLoad && r.Name == at {
				loads++
			}
			return recordtest.Answered
		})
		time.Sleep(time.Hour)
		p.takes(p.claim())
		if loads == 0 {
			t.Error("the store wrote without reading the server's clock, which it had not read for an hour")
		}
	})
}
