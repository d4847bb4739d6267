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
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// locks leaves the renewals and ends of some sessions unanswered, as if their rows were locked. The returned function locks
// the sessions that the process has at that time instead.
func (p *process) locks() (again func()) {
	var mu sync.Mutex
	var locked []session.ID
	again = func() {
		mu.Lock()
		defer mu.Unlock()
		locked = p.Sessions()
	}
	again()
	p.client.Fates(func(q recordtest.Request) recordtest.Fate {
		mu.Lock()
		defer mu.Unlock()
		if (q.Op == recordtest.OpRenew || q.Op == recordtest.OpEnd) && slices.Contains(locked, q.Session) {
			return recordtest.Hangs
		}
		return recordtest.Answered
	})
	return again
}

// keeps renews holds as an engine does, for so long: after a third of the time that each answer gives, with a third of the TTL for a
// call, and soon again after a failure. If a lease expires, the test fails.
func (p *process) keeps(d time.Duration, holds ...store.Hold) {
	p.t.Helper()
	until := make([]store.Instant, len(holds))
	for i := range until {
		until[i] = store.Now().Add(holds[i].TTL)
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(p.t.Context(), holds[0].TTL/3)
		all := p.Renew(ctx, holds)
		cancel()
		pause := holds[0].TTL / 3
		for i, r := range all {
			if store.Now() >= until[i] {
				p.t.Fatalf("the hold of %q has expired: %+v", holds[i].Name, r)
			}
			if r.Err != nil {
				pause = 50 * time.Millisecond
				continue
			}
			until[i] = max(until[i], r.From.Add(r.TTL))
			pause = min(pause, max(until[i].Sub(store.Now())/3, 50*time.Millisecond))
		}
		time.Sleep(min(pause, max(time.Until(end), moment)))
	}
}

// One session of a process is locked, then the next, and so on: its holds are kept.
func TestAHoldIsKeptIfItsSessionCannotBeRenewed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		h, other := p.takes(p.claim()), p.takes(p.claim(named("other")))
		again := p.locks()
		for range 10 {
			p.keeps(2*h.TTL, h, other)
			q.waits(q.claim(try))
			again()
		}
		p.client.Fates(nil)
		p.releases(h)
		q.takes(q.claim(try))
		p.keeps(5*h.TTL, other)
		q.waits(q.claim(named("other"), try))
		if n := len(p.Sessions()); n > 3 {
			t.Errorf("%d sessions are left, want at most 3", n)
		}
	})
}

// The same with waiters, which ask now and then.
func TestAPositionIsKeptIfItsSessionCannotBeRenewed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		h := q.takes(q.claim())
		waits := p.claim()
		p.waits(waits)
		p.locks()
		behind := q.claim()
		q.waits(behind)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			a, err := p.Poll(ctx, waits)
			if err == nil && a.From == 0 {
				a, err = p.Ask(ctx, waits)
			}
			if cancel(); err == nil && a.Granted {
				t.Fatalf("got %+v while another holds the name", a)
			}
			q.keeps(time.Second, h)
			q.waits(behind)
		}
		q.lists(h.ID, waits.ID, behind.ID)
		q.releases(h)
		if a := p.ask(waits); !a.Granted {
			t.Errorf("got %+v, want granted: the claim kept its position", a)
		}
	})
}

// A hold that was waited for leaves the short session, although the long one keeps nothing yet and is locked as well.
func TestAHoldSurvivesIfTheLongSessionCannotBeRenewed(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		h := q.takes(q.claim())
		waits := p.claim(lasting(12 * time.Second)) // hardly longer than the short one
		p.waits(waits)
		time.Sleep(waits.PositionTTL * 7 / 20) // the short session was renewed since, and ends after the long one
		p.locks()
		q.releases(h)
		got := p.takes(waits)
		p.keeps(3*got.TTL, got)
		q.waits(q.claim(try))
		p.client.Fates(nil)
		p.releases(got)
		q.takes(q.claim(try))
	})
}

// A name that was released while its session was locked is free, and stays free once the session can be written again.
func TestAReleaseFromALockedSessionFreesTheName(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		h, stays := p.takes(p.claim()), p.takes(p.claim(named("stays")))
		p.locks()
		p.keeps(h.TTL, h, stays)
		p.releases(h)
		got := q.takes(q.claim(try))
		p.client.Fates(nil)
		p.keeps(h.TTL/2, stays)
		q.lists(got.ID)
		q.waits(q.claim(named("stays"), try))
	})
}

// The same with leases of an engine, on each kind of server.
func TestLeasesAreKeptIfTheirSessionsAreLocked(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(slow(kind.o))
				locked := sync.Map{}
				of := map[store.Store]*record.Store{}
				storetest.LockedSession(t, storetest.Lockable[session.ID]{
					Open: func(*testing.T) store.Store {
						c := m.Client()
						c.Fates(func(q recordtest.Request) recordtest.Fate {
							if _, is := locked.Load(q.Session); is && (q.Op == recordtest.OpRenew || q.Op == recordtest.OpEnd || q.Op == recordtest.OpCall) {
								return recordtest.Hangs
							}
							return recordtest.Answered
						})
						r := record.New(backendOf(c, kind.o))
						s := watching(r, kind.o)
						of[s] = r
						return s
					},
					Sessions: func(s store.Store) []session.ID { return of[s].Sessions() },
					Lock:     func(_ *testing.T, id session.ID) { locked.Store(id, true) },
				})
			})
		})
	}
}

// A hold that must leave its session does not wait for others that are renewed in the same call.
func TestNoHoldThatLeavesItsSessionWaitsForAnother(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		other := p.takes(p.claim(named("other")))
		got := p.takesAfter(q) // in the short session
		p.all(recordtest.Hangs, recordtest.OpRenew)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if r := p.Renew(ctx, []store.Hold{other, got})[1]; r.Err != nil {
			t.Errorf("got %+v after %v, want renewed", r, time.Since(began))
		}
		p.client.Fates(nil)
		p.keeps(got.TTL, other, got)
	})
}

// The owner of a hold learns that it has moved before the old session would have ended, although the new session
// cannot be renewed at the moment.
func TestAHoldThatLeftItsSessionIsReportedInTime(t *testing.T) {
	t.Parallel()
	eachReplaceable(t, func(t *testing.T, _ *recordtest.Memory, p, q *process) {
		h := q.takes(q.claim())
		waits := p.claim(lasting(40 * time.Second)) // its session waits for four seconds for an answer
		p.waits(waits)
		p.locks()
		time.Sleep(waits.PositionTTL * 62 / 100) // it is not suspect yet
		q.releases(h)
		a, err := p.Ask(t.Context(), waits)
		if err != nil || !a.Granted {
			t.Fatalf("%+v, %v", a, err)
		}
		got := store.Hold{Name: waits.Name, ID: waits.ID, Token: a.Token, TTL: waits.TTL}
		ends := a.From.Add(a.TTL)
		if r := p.renews(got); r.Err != nil || store.Now() >= ends {
			t.Errorf("got %+v, %v before its lease ended", r, ends.Sub(store.Now()))
		}
	})
}
