package record_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// clockless is a server without a clock: a session has ended if it was seen unchanged for its TTL.
var clockless = recordtest.Options{Life: session.ByOwnClock, Blind: true}

// watches tries until the answer is sure, as an engine does, and returns how long that took.
func (p *process) watches(c store.Claim) (a store.Answer, took time.Duration) {
	p.t.Helper()
	began := store.Now()
	for a = p.ask(c); !a.Granted && a.Unsure > 0; a = p.ask(c) {
		if took = store.Now().Sub(began); took > 5*time.Minute {
			p.t.Fatalf("the answer is unsure after %v: %+v", took, a)
		}
		time.Sleep(min(a.Unsure, 2*time.Second))
	}
	return a, store.Now().Sub(began)
}

// Each is a process of its own, which sees the dead one's session for the first time.
func TestATryIsNotSureOfAHolderThatItHasNotSeenAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(clockless)
		p := start(t, m, false)
		c := p.claim()
		p.takes(c)
		a, took := start(t, m, false).watches(p.claim(try))
		if a.Granted || took > c.TTL/2 {
			t.Fatalf("the holder lives: got %+v after %v, want refused once its session was renewed", a, took)
		}
		p.client.Cut()
		q := start(t, m, false)
		a, took = q.watches(q.claim(try))
		if !a.Granted || took > c.TTL+time.Second {
			t.Fatalf("the holder is dead: got %+v after %v, want granted after %v", a, took, c.TTL)
		}
		if a := start(t, m, false).ask(p.claim()); a.Granted || a.Unsure != 0 {
			t.Fatalf("a claim that may wait: got %+v, want refused without doubt", a)
		}
	})
}

// All dead sessions are watched together, those of waiters too: one after the other would take long.
func TestATryWatchesTheDeadTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(clockless)
		p, c := start(t, m, false), store.Claim{}
		c = p.claim()
		p.takes(c)
		for range 3 {
			w := start(t, m, false)
			w.waits(w.claim())
			w.client.Cut()
		}
		p.client.Cut()
		q := start(t, m, false)
		if a, took := q.watches(q.claim(try)); !a.Granted || took > c.TTL+time.Second {
			t.Fatalf("got %+v after %v, want granted after %v, although others waited", a, took, c.TTL)
		}
	})
}

// On a server with a clock each answer is sure.
func TestATryWithServerTimeIsSure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Life: session.ByServerClock})
		p, q := start(t, m, false), start(t, m, false)
		p.takes(p.claim())
		if a := q.ask(q.claim(try)); a.Granted || a.Unsure != 0 {
			t.Fatalf("got %+v, want refused without doubt", a)
		}
	})
}
