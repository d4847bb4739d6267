package record_test

import (
	"errors"
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

// Law 6.
func TestANotificationIsTheGrantWithoutARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
			t.Fatalf("got %+v, want granted, counted from the last renewal of its session, before %v", a, before)
		}
	})
}

// Law 6.
func TestAHolderGrantedByNotificationLearnsOfABreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		k := p.takes(c) // it was notified before, and has not read since
		broken := (*store.LostError)(nil)
		if r := p.renews(k); !errors.As(r.Err, &broken) || broken.Reason != "because" {
			t.Fatalf("renewal: got %+v, want lost with the reason \"because\"", r)
		}
	})
}

// Law 9.
func TestAnAskThatJoinsIsAnsweredOnceItIsInTheRecord(t *testing.T) {
	t.Parallel()
	for _, void := range voids {
		t.Run(void.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(void.o)
				p, q := start(t, m, false), start(t, m, false)
				h := q.takes(q.claim())
				first, second, third := p.claim(), q.claim(), p.claim()
				p.waits(first)
				q.waits(second)
				p.waits(third)
				// A later write of another process, which has read no inbox, comes after it.
				fourth := q.claim()
				q.waits(fourth)
				q.lists(h.ID, first.ID, second.ID, third.ID, fourth.ID)
			})
		})
	}
}

// Law 9.
func TestTheEndOfAHoldersSessionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, true)
		p.takes(p.claim())
		held := m.Sessions()
		p.client.Cut()
		c := q.claim()
		q.waits(c)
		m.Lapse(held...)
		until(t, "the waiter is notified", func() bool { return q.heard(c.ID) })
		q.takes(c)
	})
}

// Law 9.
func TestTheEndOfAWaitersSessionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		until(t, "the dead waiter has left the queue", func() bool { return len(p.entries()) == 2 })
		p.releases(h)
		until(t, "the next is notified", func() bool { return q.heard(c.ID) })
	})
}

// Law 6.
func TestANotificationOfAnotherSessionIsNoGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, true), start(t, m, true)
		q.takes(q.claim())
		c := p.claim()
		p.waits(c)
		p.NotifyForTest(record.Notification{Name: at, ID: c.ID, Token: 4711, N: 1, Session: session.NewID()})
		p.isTold(c.ID, 0) // its owner would not ask
		if a := p.ask(c); a.Granted {
			t.Fatalf("got %+v, although the notification is from another session", a)
		}
	})
}

// A waiter can be granted by a notification, and then counts on its PositionTTL.
func TestAPositionLastsNoLongerThanItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := startShort(t, m), start(t, m, true)
		h := q.takes(q.claim())
		c := p.claim()
		asked := p.waits(c)
		looked, err := p.Poll(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		// Its session was renewed before now.
		latest := store.Now().Add(shorter(c.PositionTTL))
		for _, a := range []store.Answer{asked, looked} {
			if end := a.From.Add(a.TTL); a.From == 0 || a.TTL == 0 || end > latest {
				t.Errorf("the position lasts from %v until %v, but its session until %v at the latest", a.From, end, latest)
			}
		}
		q.releases(h)
		until(t, "the waiter is notified of the grant", func() bool { return p.heard(c.ID) })
		for st, err := range q.List(t.Context(), at) {
			if err != nil {
				t.Fatal(err)
			}
			p.isTold(c.ID, st.Entries[0].Token)
		}
	})
}

// Law 6: a request under way can move the entry into another session.
func TestANotificationFromBeforeAMoveIsNoGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, true), start(t, m, true)
		q.takes(q.claim())
		p.givesUpWaiting() // so that there is a session to move to
		c := p.claim(func(c *store.Claim) { c.PositionTTL = 2 * time.Second })
		p.waits(c)
		before := p.SessionForTest(c.PositionTTL)
		p.once(recordtest.OpSwap, 1, recordtest.Unanswered)
		c.PositionTTL = store.MaxPositionTTL
		p.unanswered(c)
		p.NotifyForTest(record.Notification{Name: at, ID: c.ID, Token: 4711, N: 1, Session: before})
		p.isTold(c.ID, 0)
		if a := p.ask(c); a.Granted {
			t.Fatalf("got %+v, although the notification is from before the move", a)
		}
	})
}

// Law 9.
func TestAWaiterWatchesANewEntryAheadToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		until(t, "the waiter is notified", func() bool { return c.ToldForTest(second.ID) })
		c.ReadsForTest(t.Context(), at, &old, sent) // the reply to an earlier request
		a.client.Cut()
		m.Lapse(held...)
		until(t, "the waiter is notified of the end", func() bool { return c.heard(second.ID) })
	})
}

// Many claims come at once.
func TestManySimultaneousClaimsAreAllGranted(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(slow(kind.o))
				const many = 60
				var inside, requests, served atomic.Int32
				var all sync.WaitGroup
				for range many {
					c := m.Client()
					p := startOn(t, c, backendOf(c, kind.o), !kind.o.Quiet)
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
									t.Error("two processes hold the name")
								}
								inside.Add(-1)
								served.Add(1)
								if err := p.Release(t.Context(), store.Hold{Name: at, ID: c.ID, Token: a.Token}); err != nil {
									t.Errorf("release: %v", err)
								}
								return
							}
							if kind.o.Quiet {
								time.Sleep(10 * time.Millisecond)
								continue
							}
							for reported := false; !reported; { // each round waits until one claim is served
								before := served.Load()
								until(t, "the waiter is notified, or another is granted", func() bool {
									reported = p.heard(c.ID)
									return reported || served.Load() > before
								})
							}
						}
					})
				}
				all.Wait()
				t.Logf("%.1f requests a lock", float64(requests.Load())/many)
			})
		})
	}
}
