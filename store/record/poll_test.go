package record_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Without notifications waiters poll.

// polling is a server without notifications, which answers as MySQL does.
var polling = recordtest.Options{Void: record.VoidByMark, Apart: true, Quiet: true, Silent: true, Terse: true}

func (p *process) polls(c store.Claim) store.Answer {
	p.t.Helper()
	a, err := p.Poll(p.t.Context(), c)
	if err != nil {
		p.t.Fatalf("poll: %v", err)
	}
	return a
}

// sends is the requests of a process while f runs, except renewals. It waits for work that the process does by itself at
// this instant, such as a sweep.
func (p *process) sends(f func()) (all []recordtest.Op) {
	p.t.Helper()
	synctest.Wait()
	var mu sync.Mutex
	p.client.Fates(func(q recordtest.Request) recordtest.Fate {
		mu.Lock()
		defer mu.Unlock()
		if q.Op != recordtest.OpRenew {
			all = append(all, q.Op)
		}
		return recordtest.Answered
	})
	f()
	p.client.Fates(nil)
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(all)
}

// sendsOnly fails the test unless these are the requests of f.
func (p *process) sendsOnly(what string, f func(), want ...recordtest.Op) {
	p.t.Helper()
	if have := p.sends(f); !slices.Equal(have, want) {
		p.t.Errorf("%s sends %v, want %v", what, have, want)
	}
}

// bubble runs f in a bubble, with a server without notifications and some processes on it.
func bubble(t *testing.T, o recordtest.Options, f func(t *testing.T, m *recordtest.Memory, next func() *process)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(o)
		f(t, m, func() *process { return start(t, m, false) })
	})
}

// Law 6: a poll's read is as good as a notification. And law 4: the following write depends on it.
func TestAPollThatFindsTheGrantIsTheGrant(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		h, c := q.takes(q.claim()), p.claim()
		p.waits(c)
		q.releases(h)
		time.Sleep(time.Second)
		before := store.Now()
		var a store.Answer
		p.sendsOnly("a poll", func() { a = p.polls(c) }, recordtest.OpLoad)
		if !a.Granted || a.Token <= h.Token || a.TTL == 0 || a.TTL > store.MaxPositionTTL || a.From == 0 || a.From >= before {
			t.Errorf("got %+v, want granted, counted from the last renewal of its session, before %v", a, before)
		}
		p.sendsOnly("a release", func() { p.releases(store.Hold{Name: at, ID: c.ID, Token: a.Token}) }, recordtest.OpSwap)
	})
}

// Law 6: only a written token is a grant.
func TestAPollOfAFreeNameIsNoGrant(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h := q.takes(q.claim())
		c := p.claim()
		r.givesUpWaiting()
		p.waits(c)
		r.joinsAndHangs(true) // reading the inbox grants what fits
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(2 * time.Second)
		if a := p.polls(c); !a.Granted || a.From != 0 || a.Token != 0 || a.N != 0 || a.Last != h.Token {
			t.Fatalf("got %+v, want Granted without a token", a)
		}
		before := p.stored().Version
		if p.takes(c); p.stored().Version == before {
			t.Error("the poll reports a grant that was not written")
		}
	})
}

// The same if only the holder's death makes room: then no token is drawn.
func TestAPollThatFindsADeadHolderIsNoGrant(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		q.takes(q.claim())
		c := p.claim()
		p.waits(c)
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(2 * time.Second)
		if a := p.polls(c); !a.Granted || a.From != 0 || a.Token != 0 {
			t.Fatalf("got %+v, want Granted without a token", a)
		}
		p.takes(c)
	})
}

// A waiter whose polls confirm its position does not ask again, so the polls must keep it.
func TestPollsKeepThePosition(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		h, c := q.takes(q.claim()), p.claim()
		p.waits(c)
		for end := store.Now().Add(40 * time.Second); store.Now() < end; time.Sleep(time.Second) {
			if a := p.polls(c); a.Granted || a.From == 0 || a.From < store.Now().Add(-c.PositionTTL) {
				t.Fatalf("got %+v, want refused, with the last renewal of its session", a)
			}
		}
		p.lists(h.ID, c.ID)
		time.Sleep(c.PositionTTL + time.Second) // it neither polls nor asks
		p.lists(h.ID)
	})
}

// Law 3: an ask that was not answered is asked again.
func TestAPollAfterAnUnansweredAskSparesNoAsk(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		q.takes(q.claim())
		c := p.claim()
		p.waits(c)
		p.once(recordtest.OpLoad, 1, recordtest.Lost)
		p.unanswered(c)
		if a := p.polls(c); a.From != 0 {
			t.Errorf("got %+v, although no ask was answered since", a)
		}
		p.waits(c)
		if a := p.polls(c); a.From == 0 {
			t.Errorf("got %+v, although an ask was answered", a)
		}
	})
}

// Only an ask calls the holders that it asks to give up.
func TestAPollBeforeCallingTheHoldersSparesNoAsk(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		p.takes(p.claim())
		c := q.claim(asking)
		q.all(recordtest.Lost, recordtest.OpCall)
		q.waits(c)
		q.client.Fates(nil)
		if a := q.polls(c); a.From != 0 {
			t.Errorf("got %+v, although a call failed", a)
		}
		q.waits(c)
		if a := q.polls(c); a.From == 0 {
			t.Errorf("got %+v, although all holders were called", a)
		}
	})
}

// A readLate delays the answer to its reader.
type readLate struct {
	*recordtest.Client
	late func()
}

func (b *readLate) Load(ctx context.Context, name string) (record.Record, error) {
	r, err := b.Client.Load(ctx, name)
	if late := b.late; late != nil {
		b.late = nil
		late()
	}
	return r, err
}

// Law 4: writes after the poll was sent are not in its read, and may have left a note.
func TestAPollIsNotRememberedIfTheNameWasWrittenMeanwhile(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		c := m.Client()
		late := &readLate{Client: c}
		p, q := startOn(t, c, late, false), next()
		q.takes(q.claim())
		x, y := p.claim(), p.claim()
		p.waits(x)
		time.Sleep(time.Second)
		late.late = func() {
			time.Sleep(time.Millisecond)
			p.waits(y)
		}
		p.polls(x)
		p.sendsOnly("an ask", func() { p.waits(p.claim()) }, recordtest.OpSwap) // on what it wrote for y
	})
}

// While a name changes hands, a poll checks only after a moment whether the newest holder is alive, and a release checks nobody.
func TestAPollDuringHandOversChecksNoSession(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, second, third := p.takes(p.claim()), q.claim(), r.claim()
		q.waits(second)
		r.waits(third)
		time.Sleep(150 * time.Millisecond) // p reads the inbox again
		p.sendsOnly("a release", func() { p.releases(h) }, recordtest.OpLoad, recordtest.OpSwap)
		r.sendsOnly("the first poll", func() { r.polls(third) }, recordtest.OpLoad)
		time.Sleep(200 * time.Millisecond)
		r.sendsOnly("a poll soon", func() { r.polls(third) }, recordtest.OpLoad)
		time.Sleep(100 * time.Millisecond)
		r.sendsOnly("a poll later", func() { r.polls(third) }, recordtest.OpLoad, recordtest.OpLeft)
	})
}

// The server's clock is set back, so a grant lies in the future. No process takes that for a moment ago.
func TestADeadHolderIsFoundAfterAClockSetBack(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, second, third := p.takes(p.claim()), q.claim(), r.claim()
		q.waits(second)
		r.waits(third)
		m.Advance(-time.Hour)
		for range 3 { // all read it
			time.Sleep(2 * time.Second)
			q.polls(second)
			r.polls(third)
		}
		p.releases(h)
		q.polls(second)
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		began := time.Now()
		until(t, "the waiter is granted", func() bool { return r.ask(third).Granted })
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("granted after %v, want at most 2s", d)
		}
	})
}

// For an unchecked holder it is not known when its hold ends.
func TestAnUnknownEndIsNotReturned(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		slot := func(c *store.Claim) { c.Limit, c.Weight = store.Full, store.Upgradeable }
		h, reads := p.takes(p.claim(slot)), q.claim(func(c *store.Claim) { c.Weight = 1 })
		q.takes(reads)
		first := q.waits(q.claim()) // no other claim waits
		c := r.claim()
		asked, polled := r.waits(c), r.polls(c)
		up, err := p.Change(t.Context(), h, 1, store.Full)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i, a := range []store.Answer{first, r.polls(c), asked, polled, up} {
			h := a.Holders[0]
			if known := i < 2; known != (a.Until > 0 && a.Until <= time.Minute) || known != (h.Expires > 0) || known != (h.Ends > 0) || h.Ends > time.Minute {
				t.Errorf("%d: got %+v, want the times known: %v", i, a, known)
			}
		}
	})
}

// Without the server's clock it is unknown how long a name has been held.
func TestAPollWithoutAClockChecksTheHoldersSession(t *testing.T) {
	bubble(t, recordtest.Options{Quiet: true, Silent: true, Blind: true}, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		p.takes(p.claim())
		q.waits(q.claim())
		r.sendsOnly("a poll", func() { r.polls(r.claim()) }, recordtest.OpLoad, recordtest.OpLeft)
	})
}

// A process that has held a name for longer does not grant a dead waiter.
func TestALateReleaseChecksTheNextWaitersSession(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, last := p.takes(p.claim()), r.claim()
		q.waits(q.claim())
		r.waits(last)
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(2 * time.Second)
		p.releases(h)
		if a := r.polls(last); !a.Granted || a.From == 0 {
			t.Errorf("got %+v, want granted", a)
		}
	})
}

// A try is not repeated, so it checks the holders.
func TestATryDuringHandOversChecksTheHoldersSession(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		p.takes(p.claim())
		q.waits(q.claim())
		all := r.sends(func() { r.waits(r.claim(try)) })
		if !slices.Contains(all, recordtest.OpLeft) {
			t.Errorf("the try sends %v, want a check of the holders' sessions", all)
		}
	})
}

// Dead holders are still found: recently granted ones after a moment, older ones at once.
func TestDeadProcessesAreFoundDuringHandOvers(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, r := next(), next()
		h, last := p.takes(p.claim()), r.claim()
		for range 3 {
			q := next()
			q.waits(q.claim())
			q.client.Cut()
			m.Lapse(q.Sessions()...)
		}
		r.waits(last)
		p.releases(h)
		if r.polls(last).Granted {
			t.Fatal("a release checks whether holders are alive")
		}
		time.Sleep(300 * time.Millisecond)
		r.takes(last)
	})
}

func TestADeadHolderIsFoundDuringHandOvers(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r, z := next(), next(), next(), next()
		slot := func(c *store.Claim) { c.Limit, c.Weight = 2, 1 }
		q.takes(q.claim(slot))
		h, last := z.takes(z.claim(slot)), r.claim(slot)
		p.waits(p.claim(slot))
		r.waits(last)
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(100 * time.Millisecond)
		z.releases(h) // p has it for 200 ms when r polls, and q for 300
		time.Sleep(200 * time.Millisecond)
		if a := r.polls(last); !a.Granted {
			t.Errorf("got %+v, although a dead process holds one of two slots", a)
		}
	})
}

// A hold has a lock delay, and a position has none: a release does not grant a dead waiter that would have one.
func TestADeadWaiterWithALockDelayIsNotGranted(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, last := p.takes(p.claim()), r.claim()
		q.waits(q.claim(func(c *store.Claim) { c.LockDelay = time.Hour }))
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		r.waits(last)
		p.releases(h)
		r.takes(last)
	})
}

// A claim that loses the race for a free name mostly must wait: it begins a session for that, and leaves a note without another read.
func TestALostRaceForAFreeNameLeavesANote(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		var all []recordtest.Op
		q.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if all = append(all, r.Op); len(all) == 3 {
				p.takes(p.claim())
			}
			return recordtest.Answered
		})
		c := q.claim()
		q.waits(c)
		q.client.Fates(nil)
		want := []recordtest.Op{recordtest.OpBegin, recordtest.OpLoad, recordtest.OpSwap, recordtest.OpBegin, recordtest.OpJoin, recordtest.OpLoad}
		if len(all) < len(want) || !slices.Equal(all[:len(want)], want) {
			t.Errorf("the claim sends %v, want first %v", all, want)
		}
		if ids := q.entries(); len(ids) != 2 || ids[1] != c.ID {
			t.Errorf("the list has %v", ids)
		}
	})
}
