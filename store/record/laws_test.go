package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// Law 1.
func TestAGrantCountsFromTheSessionOfItsEntry(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p := start(t, m, false)
	c := p.claim(lasting(3 * time.Minute))
	p.once(recordtest.OpSwap, 1, recordtest.Unanswered)
	p.unanswered(c)
	p.all(recordtest.Lost, recordtest.OpRenew) // so that it is seen from when it counts
	before := store.Now()
	c.TTL = time.Minute // another session, which is begun now
	a := p.ask(c)
	if !a.Granted || a.From > before {
		t.Fatalf("%+v: it counts from %v after the session of its entry was begun", a, a.From.Sub(before))
	}
}

// Law 1.
func TestAGrantLastsNoLongerThanItsSession(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	c := q.claim()
	if w := q.waits(c); w.From == 0 {
		t.Fatal("it waits, and is not told from when its place counts")
	}
	p.releases(h)
	if a := q.ask(c); !a.Granted || a.TTL > store.MaxPositionTTL || a.From == 0 {
		t.Fatalf("granted in the session of those who wait: %+v, want at most %v", a, store.MaxPositionTTL)
	}
}

// Law 2.
func TestASessionThatRanOutIsOverForAllItsClaims(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	const ttl = 200 * time.Millisecond
	one := p.claim(lasting(ttl))
	other := p.claim(lasting(ttl), func(c *store.Claim) { c.Name = "other" })
	h, k := p.takes(one), p.takes(other)
	p.all(recordtest.Lost, recordtest.OpRenew, recordtest.OpEnd)
	c := q.claim()
	until(t, "another is granted", func() bool { return q.ask(c).Granted })
	for _, hold := range []store.Hold{h, k} {
		if r := p.renews(hold); !errors.Is(r.Err, store.ErrLost) {
			t.Fatalf("renewed: %+v, want lost: its session has run out", r)
		}
	}
}

// Law 2.
func TestNobodyIsPassedOverWhoseSessionWasNotMadeOver(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	p.client.Cut() // for all that others can see it is dead
	q.waits(q.claim())
	if a := q.ask(q.claim(try)); a.Granted {
		t.Fatal("granted beside one whose session lives")
	}
	p.client.Mend()
	if r := p.renews(h); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// The comparison with the rule ends all sessions of a process at one moment. Who trusts for a second
// that one of them lives, and has heard that another has ended, grants what the dead waited for: then the
// lock delay of that blocks the name, as it does after any hold whose owner has died.
func TestWhoTrustsNoLifePassesOverAllThatEndedAtOneMoment(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{Silent: true})
	p, q := start(t, m, false), start(t, m, false)
	q.DoubtForTest()
	h := p.takes(p.claim())
	dead := p.claim(func(c *store.Claim) { c.LockDelay = time.Minute })
	p.waits(dead)
	c := q.claim()
	q.waits(c)
	q.lists(h.ID, dead.ID, c.ID) // so that it has heard of the life of each
	m.Lapse(p.Sessions()...)
	if a := q.ask(c); !a.Granted {
		t.Fatalf("refused: %+v", a)
	}
}

// Law 3.
func TestASwapThatWasNotAnsweredIsNotDoneOnceItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("used_before_%v", used), func(t *testing.T) {
			t.Parallel()
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
				t.Fatal("nothing was late")
			}
			q.lists()
			q.takes(q.claim(try))
		})
	}
}

// Law 3: a claim may be asked for anew in a shorter session.
func TestASwapThatWasNotAnsweredIsNotDoneOnceItsClaimIsAskedAnew(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	c := p.claim(lasting(3 * time.Minute))
	p.once(recordtest.OpSwap, 1, recordtest.Late)
	p.unanswered(c)
	h := q.takes(q.claim()) // what is late can be done no more, or can be if the name is as it was
	c.TTL = time.Minute
	p.waits(c)
	m.Deliver()
	p.givesUp(c)
	q.lists(h.ID)
}

// Law 3.
func TestAJoinThatWasNotAnsweredIsNotDoneOnceItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			m := recordtest.NewMemory(void.o)
			p, q := start(t, m, false), start(t, m, false)
			h := q.takes(q.claim())
			p.waits(p.claim()) // so that it has a session to wait in
			q.waits(q.claim()) // so that what p remembers is old
			c := p.claim()
			p.once(void.join, 1, recordtest.Late)
			p.unanswered(c)
			p.givesUp(c)
			if m.Deliver() != 1 {
				t.Fatal("nothing was late")
			}
			q.releases(h) // takes in what is in the inbox
			q.waits(q.claim())
			for _, id := range q.entries() {
				if id == c.ID {
					t.Fatal("a claim that was given up has come back by its note")
				}
			}
		})
	}
}

// Law 3.
func TestAJoinThatIsDoneTwiceIsTakenInOnce(t *testing.T) {
	t.Parallel()
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
		t.Fatal("nothing was done twice")
	}
	q.releases(h)
	q.waits(q.claim())
	for _, id := range q.entries() {
		if id == c.ID {
			t.Fatal("a claim that was given up has come back by a copy of its note")
		}
	}
}

// Law 4.
func TestAnAnswerIsNeverWhatIsRemembered(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := q.takes(q.claim())
	c := p.claim()
	p.waits(c)
	p.waits(c) // it remembers that it waits
	q.releases(h)
	if a := p.ask(c); !a.Granted {
		t.Fatalf("%+v: that was so before", a)
	}
}

// Law 6.
func TestANotificationIsTheGrantWithoutARead(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, true), start(t, m, true)
	h := q.takes(q.claim())
	c := p.claim()
	p.waits(c)
	q.releases(h)
	until(t, "the notification has come", func() bool { return p.heard(c.ID) })
	p.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap, recordtest.OpRenew)
	before := store.Now()
	a := p.ask(c)
	if !a.Granted || a.TTL > store.MaxPositionTTL || a.From == 0 || a.From > before {
		t.Fatalf("%+v, want granted, from the last renewal of its session, which was before %v", a, before)
	}
}

// Law 6.
func TestABreakIsHeardByWhoWasGrantedByANotification(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, true), start(t, m, true)
	h := q.takes(q.claim())
	c := p.claim(lasting(store.MaxPositionTTL)) // so that its session stays the same
	p.waits(c)
	q.releases(h)
	until(t, "the notification has come", func() bool { return p.heard(c.ID) })
	var token int64
	for st, err := range q.List(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		token = st.Entries[0].Token
	}
	if err := q.BreakHold(t.Context(), store.Break{Name: at, ID: c.ID, Token: token, Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	k := p.takes(c) // it was told before, and has not read since
	broken := (*store.LostError)(nil)
	if r := p.renews(k); !errors.As(r.Err, &broken) || broken.Reason != "because" {
		t.Fatalf("renewed: %+v, want lost: because", r)
	}
}

// Law 7.
func TestALostRaceIsNoOutage(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	var races atomic.Int32
	race := func(req recordtest.Request) recordtest.Fate {
		if req.Op == recordtest.OpSwap && races.Add(1) <= 60 {
			c := q.claim(try, func(c *store.Claim) { c.Weight = 1 })
			if a, err := q.Ask(t.Context(), c); err != nil || !a.Granted {
				t.Errorf("%+v, %v", a, err)
			}
			if err := q.Release(t.Context(), store.Hold{Name: at, ID: c.ID}); err != nil {
				t.Error(err)
			}
		}
		return recordtest.Answered
	}
	h := p.takes(p.claim(func(c *store.Claim) { c.Weight = 1 }))
	p.client.Fates(race)
	p.releases(h)
	if races.Load() < 60 {
		t.Fatalf("it lost %d races", races.Load())
	}
}

// Law 9.
func TestAnAskThatJoinsIsAnsweredOnceItIsInTheRecord(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			m := recordtest.NewMemory(void.o)
			p, q := start(t, m, false), start(t, m, false)
			h := q.takes(q.claim())
			first, second, third := p.claim(), q.claim(), p.claim()
			p.waits(first)
			q.waits(second)
			p.waits(third)
			// What another process, which has read no inbox, writes now is behind it.
			fourth := q.claim()
			q.waits(fourth)
			q.lists(h.ID, first.ID, second.ID, third.ID, fourth.ID)
		})
	}
}

// Law 9.
func TestTheEndOfAHoldersSessionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, true)
	p.takes(p.claim())
	held := m.Sessions()
	p.client.Cut()
	c := q.claim()
	q.waits(c)
	m.Lapse(held...)
	until(t, "who waits is told", func() bool { return q.heard(c.ID) })
	q.takes(c)
}

// Law 9.
func TestTheEndOfAWaitersSessionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, dead, q := start(t, m, true), start(t, m, true), start(t, m, true)
	h := p.takes(p.claim())
	before := map[string]bool{}
	for _, id := range m.Sessions() {
		before[id.String()] = true
	}
	gone, c := dead.claim(), q.claim()
	dead.waits(gone)
	all := m.Sessions()
	q.waits(c)
	dead.client.Cut()
	for _, id := range all {
		if !before[id.String()] {
			m.Lapse(id)
		}
	}
	until(t, "the dead waiter is out of the queue", func() bool { return len(p.entries()) == 2 })
	p.releases(h)
	until(t, "the next is told", func() bool { return q.heard(c.ID) })
}

// Law 10.
func TestAHoldLeavesTheShortSessionWithItsFirstRenewal(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	c := q.claim()
	q.waits(c)
	p.releases(h)
	k := q.takes(c)
	r := q.renews(k)
	if r.Err != nil || r.TTL != time.Minute {
		t.Fatalf("%+v, want renewed for a minute", r)
	}
	q.LapseShortForTest(m, store.MaxPositionTTL)
	if r := q.renews(k); r.Err != nil {
		t.Fatalf("renewed: %v: it should not depend on the short session any more", r.Err)
	}
}

// Law 10.
func TestAHoldWhoseMoveWasNotAnsweredEndsWithTheShortSession(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	c := q.claim()
	q.waits(c)
	p.releases(h)
	k := q.takes(c)
	q.once(recordtest.OpSwap, 1, recordtest.Late)
	if r := q.renews(k); r.Err == nil {
		t.Fatal("renewed, want no answer")
	}
	q.LapseShortForTest(m, store.MaxPositionTTL)
	if r := q.renews(k); !errors.Is(r.Err, store.ErrLost) {
		t.Fatalf("renewed: %+v, want lost", r)
	}
	m.Deliver() // it may be in the long session now
	next := p.claim()
	until(t, "the next is granted", func() bool { return p.ask(next).Granted })
}

// Law 10.
func TestAHoldWhoseMoveWasNotAnsweredEndsWithTheLongSession(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	c := q.claim()
	q.waits(c)
	p.releases(h)
	k := q.takes(c)
	q.once(recordtest.OpSwap, 1, recordtest.Unanswered)
	if r := q.renews(k); r.Err == nil {
		t.Fatal("renewed, want no answer")
	}
	q.LapseShortForTest(m, time.Minute)
	if r := q.renews(k); !errors.Is(r.Err, store.ErrLost) {
		t.Fatalf("renewed: %+v, want lost", r)
	}
}

// The reply to a release may be lost.
func TestAReleaseThatWasNotAnsweredIsDoneAllTheSame(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, true)
	h := p.takes(p.claim())
	c := q.claim()
	q.waits(c)
	p.once(recordtest.OpSwap, 1, recordtest.Lost)
	if err := p.Release(t.Context(), h); err == nil {
		t.Fatal("released, want no answer")
	}
	until(t, "who waits is told", func() bool { return q.heard(c.ID) })
}

// What nobody waits for any more must not be done behind the release that gives it up.
func TestAnAskThatWasAbandonedIsNotDoneBehindItsRelease(t *testing.T) {
	t.Parallel()
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
		case 1: // of the first ask: two more come to wait behind it
			met <- 1
			<-first
		case 2: // of these two
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
	until(t, "both wait", func() bool { return p.WaitingForTest(at) == 2 })
	close(first)
	<-met
	cancel()
	<-left
	all.Go(func() { p.givesUp(goes) })
	until(t, "what gives it up waits", func() bool { return p.WaitingForTest(at) == 1 })
	close(second)
	all.Wait()
	if ids := q.entries(); slices.Contains(ids, goes.ID) || ids[0] != h.ID {
		t.Fatalf("%v is listed: it was given up", goes.ID)
	}
}

// Law 3: an inbox that was not read to its end is none without the note.
func TestAClaimThatGivesUpLeavesNoNoteInALongInbox(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			m := recordtest.NewMemory(void.o)
			q := start(t, m, false)
			h := q.takes(q.claim())
			var crowd []*process
			for range 2*record.MaxNotes + 8 { // so that two readings do not show all
				crowd = append(crowd, start(t, m, false))
			}
			for _, p := range crowd {
				p.givesUp(p.claim()) // so that it knows the name
				p.givesUpWaiting()
			}
			last := start(t, m, false)
			last.givesUpWaiting()
			q.writes(h) // what all of them remember is old now
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
				t.Fatal("a claim that was given up has come back by its note")
			}
		})
	}
}

// givesUpWaiting waits once, so that the process has a session for that.
func (p *process) givesUpWaiting() {
	p.t.Helper()
	c := p.claim()
	p.waits(c)
	p.givesUp(c)
}

// writes writes the record.
func (p *process) writes(h store.Hold) {
	p.t.Helper()
	h.Owner = "another"
	if r := p.renews(h); r.Err != nil {
		p.t.Fatal(r.Err)
	}
}

// joinsAndHangs leaves a note, and is away from then on.
func (p *process) joinsAndHangs(apart bool) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	joined := false
	p.client.Fates(func(r recordtest.Request) recordtest.Fate {
		switch {
		case r.Op == recordtest.OpRenew:
			return recordtest.Answered
		case joined:
			cancel()
			return recordtest.Lost
		}
		joined = r.Op == recordtest.OpJoin || r.Op == recordtest.OpSwap && r.Swap.Join != nil && !apart
		return recordtest.Answered
	})
	_, _ = p.Ask(ctx, p.claim())
	cancel()
}

// Law 6.
func TestANotificationOfAnotherSessionIsNoGrant(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, true), start(t, m, true)
	q.takes(q.claim())
	c := p.claim()
	p.waits(c)
	p.NotifyForTest(record.Notification{Name: at, ID: c.ID, Token: 4711, N: 1, Session: session.NewID()})
	if a := p.ask(c); a.Granted {
		t.Fatalf("%+v: that was in another session", a)
	}
}

// Law 9.
func TestWhoIsToldOfAnotherAheadMeanwhileWatchesThatToo(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	a, b, c := start(t, m, true), start(t, m, true), start(t, m, true)
	a.takes(a.claim())
	held := m.Sessions()
	first, second := b.claim(), c.claim()
	b.waits(first)
	c.waits(second)
	sent := store.Now()
	old, err := c.client.Load(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	b.givesUp(first)
	until(t, "it is told", func() bool { return c.ToldForTest(second.ID) })
	c.ReadsForTest(t.Context(), at, &old, sent) // the reply of what it had sent before
	a.client.Cut()
	m.Lapse(held...)
	until(t, "who waits is told of the end", func() bool { return c.heard(second.ID) })
}

// Without a clock a minimum hold is a session of its own.
func TestAMinimumHoldNeedsNoClockOfTheServer(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{Blind: true})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim(func(c *store.Claim) { c.MinHold = time.Minute }))
	h.Used = h.Token
	p.releases(h)
	if a := q.ask(q.claim(try)); a.Granted {
		t.Fatal("granted in the minimum hold of another")
	}
}

// Many that come at once.
func TestManyThatComeAtOnceAllGetIn(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			m := recordtest.NewMemory(slow(kind.o))
			const many = 60
			var inside, requests atomic.Int32
			var all sync.WaitGroup
			for range many {
				p := start(t, m, !kind.o.Quiet)
				p.client.Fates(func(q recordtest.Request) recordtest.Fate {
					if q.Op != recordtest.OpNotify && q.Op != recordtest.OpAwait {
						requests.Add(1)
					}
					return recordtest.Answered
				})
				all.Go(func() {
					c := p.claim()
					for {
						a, err := p.Ask(t.Context(), c)
						if err != nil {
							t.Errorf("ask: %v", err)
							return
						}
						if a.Granted {
							if inside.Add(1) != 1 {
								t.Error("two are inside")
							}
							inside.Add(-1)
							if err := p.Release(t.Context(), store.Hold{Name: at, ID: c.ID, Token: a.Token}); err != nil {
								t.Errorf("release: %v", err)
							}
							return
						}
						if kind.o.Quiet {
							time.Sleep(10 * time.Millisecond)
							continue
						}
						until(t, "it is told", func() bool { return p.heard(c.ID) })
					}
				})
			}
			all.Wait()
			t.Logf("%.1f requests a lock", float64(requests.Load())/many)
		})
	}
}
