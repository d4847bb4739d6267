package record_test

import (
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// What storetest cannot see of a waiter that asks the holders to give up.

func asking(c *store.Claim) { c.GiveUp = "please" }

// renewedAsked renews a hold, which is asked to be given up for a reason, or not.
func (p *process) renewedAsked(h store.Hold, want string) {
	p.t.Helper()
	if r := p.renews(h); r.Err != nil || r.GiveUp != want {
		p.t.Fatalf("%+v, want it asked to give up for %q", r, want)
	}
}

func TestWhoIsGrantedByANotificationHearsOfWhoAsksToGiveUp(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, true), start(t, m, true)
	h := q.takes(q.claim())
	c := p.claim(lasting(store.MaxPositionTTL)) // so that its session stays the same
	p.waits(c)
	q.waits(q.claim(asking))
	q.releases(h)
	until(t, "the notification has come", func() bool { return p.heard(c.ID) })
	p.renewedAsked(p.takes(c), "please")
}

// The notification comes before the call.
func TestWhoIsNotifiedReadsWhyItIsAskedToGiveUp(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, true), start(t, m, true)
	h := p.takes(p.claim())
	q.all(recordtest.Lost, recordtest.OpCall)
	q.waits(q.claim(asking))
	until(t, "the holder is told", func() bool { return p.heard(h.ID) })
	p.renewedAsked(h, "please")
}

func TestACallOfAHolderThatFailedIsMadeWithTheNextAsk(t *testing.T) {
	t.Parallel()
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
}

func TestAHolderIsCalledOnceByWhoAsksItToGiveUp(t *testing.T) {
	t.Parallel()
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
			t.Fatalf("%d calls, want %d: one each time that it begins to ask", have, want)
		}
	}
}

// While the server does not answer for the name, but for the sessions.
func TestAHoldThatIsAskedToBeGivenUpIsNotLostByThat(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	q.waits(q.claim(asking))
	p.renewedAsked(h, "please")
	p.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap)
	p.renewedAsked(h, "please")
}

// While the server does not answer for the name, but for the sessions.
func TestAHoldThatIsAskedToBeGivenUpIsRenewedInAMove(t *testing.T) {
	t.Parallel()
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
		t.Fatalf("%+v: the longer session was not renewed since", r)
	}
	q.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpSwap)
	if r := q.renews(k); r.Err != nil {
		t.Fatalf("%+v, want renewed in both sessions", r)
	}
}

func TestTheDeadAskNobodyToGiveUp(t *testing.T) {
	t.Parallel()
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
}
