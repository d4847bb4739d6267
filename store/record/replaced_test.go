package record_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// replaceables are the servers that can be replaced by another.
var replaceables = []struct {
	name string
	o    recordtest.Options
}{
	{"polling", polling},
	{"notifying", recordtest.Options{}},
	{"no_clock", recordtest.Options{Blind: true, Silent: true}},
}

// eachReplaceable runs a test in a bubble, where time passes only while all goroutines wait.
func eachReplaceable(t *testing.T, f func(t *testing.T, m *recordtest.Memory, p, q *process)) {
	for _, kind := range replaceables {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(kind.o)
				f(t, m, start(t, m, false), start(t, m, false))
			})
		})
	}
}

func named(at string) func(*store.Claim) { return func(c *store.Claim) { c.Name = at } }

// lives renews holds as their owner does, and polls for waiting claims, for so long.
func (p *process) lives(d time.Duration, waiting []store.Claim, holds ...store.Hold) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
		for i, r := range p.Renew(p.t.Context(), holds) {
			if r.Err != nil {
				p.t.Fatalf("%q: %v", holds[i].Name, r.Err)
			}
		}
		for _, c := range waiting {
			a, err := p.Poll(p.t.Context(), c)
			if err == nil && a.From == 0 {
				a, err = p.Ask(p.t.Context(), c)
			}
			if err != nil || a.Granted {
				p.t.Fatalf("%q: got %+v, %v, want refused", c.Name, a, err)
			}
		}
	}
}

// A replica that had not received a release replaces the server. The other holds of the process stay.
func TestAHoldRestoredByAnotherServerIsFreed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		h, stays := p.takes(p.claim()), p.takes(p.claim(named("stays")))
		promote := m.Fork()
		p.releases(h)
		promote()
		q.lists(h.ID)
		p.lives(3*time.Minute+10*time.Second, nil, stays)
		q.takes(q.claim(try))
		q.waits(q.claim(named("stays"), try))
		p.lives(5*time.Minute, nil, stays)
		q.waits(q.claim(named("stays"), try))
		p.releases(stays)
		q.takes(q.claim(named("stays"), try))
	})
}

// The same with a position, beside another position of the process, which is kept.
func TestAPositionRestoredByAnotherServerIsFreed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		h, other := q.takes(q.claim()), q.takes(q.claim(named("other")))
		gone, waits := p.claim(), p.claim(named("other"))
		p.waits(gone)
		p.waits(waits)
		promote := m.Fork()
		p.givesUp(gone)
		promote()
		q.lists(h.ID, gone.ID)
		for range 10 {
			p.lives(4*time.Second, []store.Claim{waits})
			q.lives(time.Second, nil, h, other)
		}
		q.lists(h.ID)
		q.releases(other)
		if a := p.ask(waits); !a.Granted {
			t.Errorf("got %+v, want granted: the claim kept its position", a)
		}
	})
}

// A replica that had not received a grant replaces the server: another process may be granted the name.
func TestAHoldThatANewServerForgotIsLostAtRenewal(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		stays := p.takes(p.claim(named("stays")))
		promote := m.Fork()
		h := p.takes(p.claim())
		promote()
		q.takes(q.claim())
		all := p.Renew(t.Context(), []store.Hold{h, stays})
		if !errors.Is(all[0].Err, store.ErrLost) || all[1].Err != nil {
			t.Errorf("got %v, want only the first lost", all)
		}
		before := len(p.Sessions())
		p.lives(2*time.Minute+30*time.Second, nil, stays)
		if n := len(p.Sessions()); n >= before {
			t.Errorf("%d sessions are left, as before, although one keeps only lost entries", n)
		}
	})
}

// Whatever happens to the writes that move a hold into another session: its lease lasts for as long as its owner knows.
func TestAHoldIsKeptIfANewServerAnswersNothing(t *testing.T) {
	t.Parallel()
	for _, fate := range []recordtest.Fate{recordtest.Lost, recordtest.Unanswered, recordtest.Late, recordtest.Hangs} {
		eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
			h := p.takes(p.claim())
			m.Fork()()
			p.all(fate, recordtest.OpSwap)
			ends := time.Now().Add(h.TTL)
			for range 10 { // it is renewed in both sessions
				if r := p.renews(h); r.Err == nil {
					ends = time.Now().Add(r.TTL)
				}
				time.Sleep(10 * time.Second)
				if a := q.ask(q.claim(try)); a.Granted && time.Now().Before(ends) {
					t.Fatalf("fate %d: another was granted the name %v before the lease ends", fate, time.Until(ends))
				}
			}
			p.client.Fates(nil)
			m.Deliver()
			if r := p.renews(h); r.Err != nil {
				t.Errorf("fate %d: renewal: %v", fate, r.Err)
			}
			p.lives(5*time.Minute, nil, h)
			q.waits(q.claim(try))
		})
	}
}

// Until the process can read whether a hold is there, its renewals do not count, whatever happens to the sessions.
func TestAHoldUnreadableOnTheNewServerIsNotRenewed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		stays := p.takes(p.claim(named("stays")))
		promote := m.Fork()
		h := p.takes(p.claim())
		promote()
		q.takes(q.claim())
		p.all(recordtest.Lost, recordtest.OpLoad, recordtest.OpInbox, recordtest.OpSwap)
		for range 5 {
			if r := p.renews(h); r.Err == nil {
				t.Fatalf("got %+v, for the forgotten hold", r)
			}
			time.Sleep(5 * time.Second)
		}
		p.client.Fates(nil)
		if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("renewal of the forgotten hold: got %v, want ErrLost", r.Err)
		}
		if r := p.renews(stays); r.Err != nil {
			t.Errorf("renewal of the restored hold: %v", r.Err)
		}
	})
}

// A hold without another session to move to stays in its session, which keeps it.
func TestAHoldIsKeptWithoutASessionOnTheNewServer(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		stays := p.takes(p.claim(named("stays")))
		promote := m.Fork()
		h := p.takes(p.claim())
		promote()
		p.all(recordtest.Lost, recordtest.OpBegin)
		if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("renewal of the forgotten hold: got %v, want ErrLost", r.Err)
		}
		p.lives(5*time.Minute, nil, stays)
		q.waits(q.claim(named("stays"), try))
	})
}

// Two servers take turns, and each counts as another one: holds are kept, and released names come free.
func TestAHoldIsKeptIfItsServerIsReplacedRepeatedly(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, m *recordtest.Memory, p, q *process) {
		h, stays := p.takes(p.claim()), p.takes(p.claim(named("stays")))
		promote := m.Fork()
		p.releases(h)
		promote()
		for range 20 {
			p.lives(20*time.Second, nil, stays)
			m.Fork()()
		}
		q.waits(q.claim(named("stays"), try))
		q.takes(q.claim(try))
		if n := len(p.Sessions()); n > 12 {
			t.Errorf("%d sessions are left, want at most 12", n)
		}
	})
}

// Without a replacement there is no cost: a renewal is one request for all entries of a session.
func TestARenewalOnAServerThatStaysIsOneRequest(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, _ *process) {
		holds := []store.Hold{p.takes(p.claim()), p.takes(p.claim(named("another")))}
		p.lives(time.Second, nil, holds...)
		met := map[recordtest.Op]int{}
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			met[r.Op]++
			return recordtest.Answered
		})
		p.lives(2*time.Second, nil, holds...)
		if len(met) != 1 || met[recordtest.OpRenew] != 1 {
			t.Errorf("got %v, want one renewal", met)
		}
	})
}
