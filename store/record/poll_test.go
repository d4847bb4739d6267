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

// Where nobody is notified, those who wait poll.

// polling is a server that notifies nobody, and what MySQL tells.
var polling = recordtest.Options{Void: record.VoidByMark, Apart: true, Quiet: true, Silent: true, Terse: true}

func (p *process) polls(c store.Claim) store.Answer {
	p.t.Helper()
	a, err := p.Poll(p.t.Context(), c)
	if err != nil {
		p.t.Fatalf("poll: %v", err)
	}
	return a
}

// sends is the requests of a process while f runs, but for renewals. It waits for what the process does by itself at
// this instant, as it may have begun to sweep.
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

// bubble runs f in a bubble, with a server that notifies nobody and some processes on it.
func bubble(t *testing.T, o recordtest.Options, f func(t *testing.T, m *recordtest.Memory, next func() *process)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(o)
		f(t, m, func() *process { return start(t, m, false) })
	})
}

// Law 6: what a poll has read is as good as a notification. And law 4: it is what the write that follows depends on.
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
			t.Errorf("%+v, want granted, from the last renewal of its session, which was before %v", a, before)
		}
		p.sendsOnly("a release", func() { p.releases(store.Hold{Name: at, ID: c.ID, Token: a.Token}) }, recordtest.OpSwap)
	})
}

// Law 6: only what was written is granted.
func TestAPollOfAFreeNameIsNoGrant(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h := q.takes(q.claim())
		c := p.claim()
		r.givesUpWaiting()
		p.waits(c)
		r.joinsAndHangs(true) // the reading of the inbox grants what fits
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(2 * time.Second)
		if a := p.polls(c); !a.Granted || a.From != 0 || a.Token != 0 || a.N != 0 || a.Last != h.Token {
			t.Fatalf("%+v, want room, and no grant", a)
		}
		before := p.stored().Version
		if p.takes(c); p.stored().Version == before {
			t.Error("a grant that was not written")
		}
	})
}

// The same where nothing but the death of the holder makes room: no token is drawn then.
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
			t.Fatalf("%+v, want room, and no grant", a)
		}
		p.takes(c)
	})
}

// Who is told by polls that it has its position asks no more, so they keep it.
func TestPollsKeepThePosition(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		h, c := q.takes(q.claim()), p.claim()
		p.waits(c)
		for end := store.Now().Add(40 * time.Second); store.Now() < end; time.Sleep(time.Second) {
			if a := p.polls(c); a.Granted || a.From == 0 || a.From < store.Now().Add(-c.PositionTTL) {
				t.Fatalf("%+v, want refused, and when its session was renewed", a)
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
			t.Errorf("%+v, and no ask was answered since", a)
		}
		p.waits(c)
		if a := p.polls(c); a.From == 0 {
			t.Errorf("%+v, though an ask was answered", a)
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
			t.Errorf("%+v, though a call has failed", a)
		}
		q.waits(c)
		if a := q.polls(c); a.From == 0 {
			t.Errorf("%+v, though all are called", a)
		}
	})
}

// A readLate has its reader hear only after a while.
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

// Law 4: what was done since the poll was sent is not in what it has read, and may have left a note.
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

// While a name goes from hand to hand, who polls asks only after a moment whether its newest holder lives, and who gives back asks of nobody.
func TestAPollDuringHandOversChecksNoSession(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, second, third := p.takes(p.claim()), q.claim(), r.claim()
		q.waits(second)
		r.waits(third)
		p.sendsOnly("a release", func() { p.releases(h) }, recordtest.OpLoad, recordtest.OpSwap)
		r.sendsOnly("the first poll", func() { r.polls(third) }, recordtest.OpLoad)
		time.Sleep(200 * time.Millisecond)
		r.sendsOnly("a poll soon", func() { r.polls(third) }, recordtest.OpLoad)
		time.Sleep(100 * time.Millisecond)
		r.sendsOnly("a poll later", func() { r.polls(third) }, recordtest.OpLoad, recordtest.OpLeft)
	})
}

// The server's clock is set back, so whoever is granted the name is so in the future: nobody takes that for a moment ago.
func TestADeadHolderIsFoundAfterAClockSetBack(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		h, second, third := p.takes(p.claim()), q.claim(), r.claim()
		q.waits(second)
		r.waits(third)
		m.Advance(-time.Hour)
		for range 3 { // all hear of it
			time.Sleep(2 * time.Second)
			q.polls(second)
			r.polls(third)
		}
		p.releases(h)
		q.polls(second)
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		began := time.Now()
		until(t, "who waits is granted", func() bool { return r.ask(third).Granted })
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// Of who was not asked about it is not known when it ends.
func TestAnUnknownEndIsNotReturned(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		slot := func(c *store.Claim) { c.Limit, c.Weight = store.Full, store.Upgradeable }
		h, reads := p.takes(p.claim(slot)), q.claim(func(c *store.Claim) { c.Weight = 1 })
		q.takes(reads)
		first := q.waits(q.claim()) // there is no other that waits
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
				t.Errorf("%d: %+v, want the times known: %v", i, a, known)
			}
		}
	})
}

// Without a clock of the server nobody knows how long a name is held.
func TestAPollWithoutAClockChecksTheHoldersSession(t *testing.T) {
	bubble(t, recordtest.Options{Quiet: true, Silent: true, Blind: true}, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		p.takes(p.claim())
		q.waits(q.claim())
		r.sendsOnly("a poll", func() { r.polls(r.claim()) }, recordtest.OpLoad, recordtest.OpLeft)
	})
}

// Who has had a name for longer grants nobody dead.
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
			t.Errorf("%+v, want granted", a)
		}
	})
}

// A try is not made again, so it asks.
func TestATryDuringHandOversChecksTheHoldersSession(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q, r := next(), next(), next()
		p.takes(p.claim())
		q.waits(q.claim())
		all := r.sends(func() { r.waits(r.claim(try)) })
		if !slices.Contains(all, recordtest.OpLeft) {
			t.Errorf("it sends %v", all)
		}
	})
}

// The dead are found all the same: those that were granted in a moment, and those that hold for longer at once.
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
			t.Fatal("who gives back asks for lives")
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
			t.Errorf("%+v, though one of two slots is held by the dead", a)
		}
	})
}

// A hold has a lock delay, and a position has none: who gives back grants no dead waiter that would have one.
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

// Who loses the race for a name that was free has to wait as a rule: it begins a session for that, and leaves a note without reading again.
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
			t.Errorf("it sends %v, want first %v", all, want)
		}
		if ids := q.entries(); len(ids) != 2 || ids[1] != c.ID {
			t.Errorf("listed are %v", ids)
		}
	})
}
