package record_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Details of a waiter that asks the holders to give up, which storetest cannot see.

func asking(c *store.Claim) { c.GiveUp = "please" }

// renewedAsked renews a hold, and checks the reason for which it is asked to be given up, or that there is none.
func (p *process) renewedAsked(h store.Hold, want string) {
	p.t.Helper()
	if r := p.renews(h); r.Err != nil || r.GiveUp != want {
		p.t.Fatalf("got %+v, want it asked to give up with the reason %q", r, want)
	}
}

func TestAHolderGrantedByNotificationIsAskedToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, true), start(t, m, true)
		h := q.takes(q.claim())
		c := p.claim(lasting(store.MaxPositionTTL)) // so that its session stays the same
		p.waits(c)
		q.waits(q.claim(asking))
		q.releases(h)
		until(t, "the notification has come", func() bool { return p.heard(c.ID) })
		p.renewedAsked(p.takes(c), "please")
	})
}

// The notification comes before the call.
func TestANotifiedHolderReadsWhyItIsAskedToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, true), start(t, m, true)
		h := p.takes(p.claim())
		q.all(recordtest.Lost, recordtest.OpCall)
		q.waits(q.claim(asking))
		until(t, "the holder is notified", func() bool { return p.heard(h.ID) })
		p.renewedAsked(h, "please")
	})
}

func TestACallOfAHolderThatFailedIsMadeWithTheNextAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Quiet: true})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		c := q.claim(asking)
		q.all(recordtest.Lost, recordtest.OpCall)
		q.waits(c)
		p.renewedAsked(h, "")
		q.client.Fates(nil)
		q.waits(c)
		p.renewedAsked(h, "please")
	})
}

func TestAWaiterAsksAHolderOnceToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Quiet: true})
		p, q := start(t, m, false), start(t, m, false)
		p.takes(p.claim())
		var calls atomic.Int32
		q.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpCall {
				calls.Add(1)
			}
			return recordtest.Answered
		})
		c := q.claim()
		q.waits(c)
		for _, want := range []int32{1, 2} {
			c.GiveUp = ""
			q.waits(c)
			c.GiveUp = "please"
			q.waits(c)
			q.waits(c)
			if have := calls.Load(); have != want {
				t.Fatalf("got %d calls, want %d: one each time the waiter starts to ask", have, want)
			}
		}
	})
}

// While the server does not answer for the name, but for the sessions.
func TestAHoldThatIsAskedToGiveUpIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		q.waits(q.claim(asking))
		p.renewedAsked(h, "please")
		p.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap)
		p.renewedAsked(h, "please")
	})
}

// While the server does not answer for the name, but for the sessions.
func TestAHoldThatIsAskedToGiveUpIsRenewedInAMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		c := q.claim()
		q.waits(c)
		p.waits(p.claim(asking))
		p.releases(h)
		k := q.takes(c)
		q.once(recordtest.OpSwap, 1, recordtest.Lost)
		if r := q.renews(k); r.Err == nil {
			t.Fatalf("got %+v, although the longer session was not renewed since", r)
		}
		q.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap)
		if r := q.renews(k); r.Err != nil {
			t.Fatalf("got %+v, want renewed in both sessions", r)
		}
	})
}

func TestADeadWaiterAsksNoHolderToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Silent: true})
		p := start(t, m, false)
		h := p.takes(p.claim())
		p.DoubtForTest()
		for _, heard := range []bool{false, true} {
			q := start(t, m, false)
			q.waits(q.claim(asking))
			if heard {
				p.renewedAsked(h, "please")
			}
			q.client.Cut()
			m.Lapse(q.Sessions()...)
			p.renewedAsked(h, "")
		}
	})
}

func reads(c *store.Claim) { c.Weight = 1 }

func upgradeable(c *store.Claim) { c.Weight = store.Upgradeable }

// upgrades asks for an upgrade, which must wait, and asks the other holders to give up.
func (p *process) upgrades(h store.Hold, turn int32) {
	p.t.Helper()
	time.Sleep(moment)
	h.GiveUp = "please"
	if a, err := p.Change(p.t.Context(), h, turn, store.Full); err != nil || a.Granted {
		p.t.Fatalf("upgrade: got %+v, %v, want it pending", a, err)
	}
}

// Each holder is called once for each upgrade. The upgrading holder itself is not called, and failed calls are repeated.
func TestAnUpgradeAsksTheOtherHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Quiet: true})
		p, q := start(t, m, false), start(t, m, false)
		// The upgrader had asked while it waited.
		before := p.takes(p.claim())
		c := q.claim(upgradeable, asking)
		q.waits(c)
		p.releases(before)
		u := q.takes(c)
		if r := q.renews(u); r.Err != nil { // from then on it is in the session for holds
			t.Fatal(r.Err)
		}
		h := p.takes(p.claim(reads))
		p.renewedAsked(h, "") // and it has learned of the earlier call
		var calls atomic.Int32
		fate := recordtest.Lost
		q.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpCall {
				calls.Add(1)
				return fate
			}
			return recordtest.Answered
		})
		q.upgrades(u, 1)
		p.renewedAsked(h, "")
		fate = recordtest.Answered
		for turn, want := range []int32{1: 2, 3: 3} {
			if want == 0 {
				continue
			}
			q.upgrades(u, int32(turn))
			q.upgrades(u, int32(turn))
			if have := calls.Load(); have != want {
				t.Fatalf("turn %d: got %d calls, want %d", turn, have, want)
			}
			p.renewedAsked(h, "please")
			q.renewedAsked(u, "")
			if a, err := q.Change(t.Context(), u, int32(turn)+1, store.Upgradeable); err != nil || !a.Granted {
				t.Fatal(a, err)
			}
			p.renewedAsked(h, "")
		}
	})
}

// For an upgrader, the first waiter that asks is behind itself.
func TestADeadWaiterAsksNoUpgraderToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Silent: true})
		p, q := start(t, m, false), start(t, m, false)
		u := p.takes(p.claim(upgradeable))
		p.takes(p.claim(reads))
		p.upgrades(u, 1)
		p.DoubtForTest()
		q.waits(q.claim(asking))
		p.renewedAsked(u, "please")
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		p.renewedAsked(u, "")
	})
}

// An upgrade whose owner has died does not ask either.
func TestADeadUpgraderAsksNoHolderToGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Silent: true})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim(reads))
		p.DoubtForTest()
		q.upgrades(q.takes(q.claim(upgradeable)), 1)
		p.renewedAsked(h, "please")
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		p.renewedAsked(h, "")
	})
}

// pausing is a backend that stops once, after the server has done a request and before the answer arrives.
type pausing struct {
	*recordtest.Client
	at atomic.Pointer[pause]
}

type pause struct {
	op            recordtest.Op
	begun, goesOn chan struct{}
}

// during runs one function, and another while the first stops after a request.
func (b *pausing) during(op recordtest.Op, do, meanwhile func()) {
	p, done := &pause{op, make(chan struct{}), make(chan struct{})}, make(chan struct{})
	b.at.Store(p)
	go func() {
		defer close(done)
		do()
	}()
	defer func() { <-done }()
	defer close(p.goesOn)
	<-p.begun
	meanwhile()
}

func (b *pausing) after(op recordtest.Op) {
	if p := b.at.Load(); p != nil && p.op == op && b.at.CompareAndSwap(p, nil) {
		close(p.begun)
		<-p.goesOn
	}
}

func (b *pausing) Load(ctx context.Context, name string) (record.Record, error) {
	defer b.after(recordtest.OpLoad)
	return b.Client.Load(ctx, name)
}

func (b *pausing) Swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	defer b.after(recordtest.OpSwap)
	return b.Client.Swap(ctx, s)
}

// startPausing starts a process that can be stopped, and one whose calls are lost, so that only notifications report
// requests to give up. asks lets the second ask, until the first has its notification.
func startPausing(t *testing.T) (b *pausing, p, q *process, asks func() store.Claim) {
	t.Helper()
	m := recordtest.NewMemory(recordtest.Options{})
	b = &pausing{Client: m.Client()}
	p, q = startOn(t, b.Client, b, true), start(t, m, true)
	q.all(recordtest.Lost, recordtest.OpCall)
	reported := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.notifications)
	}
	return b, p, q, func() store.Claim {
		t.Helper()
		before, c := reported(), q.claim(asking)
		q.waits(c)
		until(t, "the holder is notified", func() bool { return reported() > before })
		return c
	}
}

// Another claim begins to ask after a renewal has read, or written, and before its answer arrives.
func TestAHolderNotifiedDuringARenewalReadsWithTheNext(t *testing.T) {
	t.Parallel()
	for _, op := range []recordtest.Op{recordtest.OpLoad, recordtest.OpSwap} {
		b, p, q, asks := startPausing(t)
		h := p.takes(p.claim())
		if op == recordtest.OpLoad { // it reads the reason, and writes nothing
			c := asks()
			p.renewedAsked(h, "please")
			q.givesUp(c)
		} else {
			h.Owner = "another"
		}
		b.during(op, func() { p.Renew(t.Context(), []store.Hold{h}) }, func() { asks() })
		p.renewedAsked(h, "please")
	}
}

// Law 15. Another process calls after a renewal, or an ask, has written, and before its answer arrives. The session learns of the call meanwhile.
func TestAHolderCalledMeanwhileReadsWithTheNextRenewal(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		m := recordtest.NewMemory(recordtest.Options{Quiet: true})
		b := &pausing{Client: m.Client()}
		p, q := startOn(t, b.Client, b, false), start(t, m, false)
		c := p.claim()
		h := store.Hold{Name: c.Name, ID: c.ID, TTL: c.TTL}
		if asks {
			p.releases(p.takes(p.claim())) // so it writes with the first request
		} else {
			h.Token, h.Owner = p.takes(c).Token, "another" // which is written
		}
		b.during(recordtest.OpSwap, func() {
			if !asks {
				p.Renew(t.Context(), []store.Hold{h})
			} else if a, err := p.Ask(t.Context(), c); err == nil {
				h.Token = a.Token
			}
		}, func() {
			q.waits(q.claim(asking))
			if st := p.HearForTest(c.TTL); st.Calls == 0 {
				t.Error("the session was not called")
			}
		})
		p.renewedAsked(h, "please")
	}
}

// Another claim begins to ask after a claim was granted, and before the owner has the answer.
func TestAHolderNotifiedBeforeItsGrantReadsTheRequest(t *testing.T) {
	t.Parallel()
	b, p, _, asks := startPausing(t)
	p.releases(p.takes(p.claim())) // so it writes with the first request
	c := p.claim()
	h := store.Hold{Name: c.Name, ID: c.ID, TTL: c.TTL}
	b.during(recordtest.OpSwap, func() {
		a, err := p.Ask(t.Context(), c)
		if err != nil || !a.Granted {
			t.Errorf("got %+v, %v, want granted", a, err)
		}
		h.Token = a.Token
	}, func() { asks() })
	p.renewedAsked(h, "please")
}
