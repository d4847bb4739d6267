package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// What is told of those who wait, and how many may.

// An ahead is what makes one answer to a waiter differ from the one before.
type ahead struct {
	told             bool
	holding, waiting int
	first            store.ID    // of the holders
	owner            store.Owner // of that one, where the store knows no id
}

// tellWaiting tells the observer that the claim waits, if that is news: it has just
// begun to, or others are ahead now.
func (r *request) tellWaiting(a *store.Answer) {
	if r.s.Observer == nil {
		return
	}
	now := ahead{told: true}
	now.holding = a.Holding //mutant:news-of-number-holding
	now.waiting = a.Waiting //mutant:news-of-number-ahead
	if len(a.Holders) > 0 {
		now.first = a.Holders[0].ID //mutant:news-of-first-holder
		if now.first == (store.ID{}) {
			now.owner = a.Holders[0].Owner //mutant:news-of-first-owner
		}
	}
	if now != r.pos { //mutant:waiting-each-answer
		r.pos = now
		r.w.waiting(&r.values, r.claim.ID, r.began, a, time.Now())
	}
}

// waiting tells the observer who is ahead of a claim that began at the instant.
func (w *Target) waiting(of *values, id store.ID, began clock.Instant, a *store.Answer, when time.Time) {
	if s := w.l.s; s.Observer != nil {
		s.notify(w.event(EventWaiting, of, id, began, w.refusal(a, when, nil)))
	}
}

// A past is of the claims that wait for a name past its local queue, as they have
// another limit.
type past struct {
	n       int      // how many have a position in the store
	refused *refused // how it last answered one of them
}

// waitsPast notes that the store has refused a claim that asks past its local queue.
func (g *localQueues) waitsPast(r *request) {
	if r.p != nil || !r.queued {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.past[r.w.name]
	if at == nil {
		at = &past{}
		g.past[r.w.name] = at
	}
	if at.refused = r.refused; !r.past {
		r.past = true
		at.n++ //mutant:past-the-line-waits
	}
}

// leavePast notes that the wait of a claim is over.
func (g *localQueues) leavePast(r *request) {
	if !r.past {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.past[r.w.name]
	at.n--
	if at.n == 0 { //mutant:past-for-ever
		delete(g.past, r.w.name)
	}
}

// waits is how many of the process wait for the name. g.mu is held.
func (g *localQueues) waits(name string) (n int) {
	if past := g.past[name]; past != nil {
		n = past.n
	}
	at := g.m[name]
	if at == nil {
		return n
	}
	for _, p := range at.inside {
		if !p.sent {
			n++ // it has a position
		}
	}
	return n + at.line
}

// ahead is who is ahead of one that comes now. g.mu is held.
func (g *localQueues) ahead(name string) (r refused) {
	at, past := g.m[name], g.past[name]
	switch {
	case at != nil && at.hold != nil:
		r = *at.hold.refusal()
	case at != nil && at.refused != nil:
		r = *at.refused
	case past != nil:
		r = *past.refused
	default:
		r.when = time.Now()
	}
	if at != nil {
		r.answer.Waiting += len(at.inside) + at.line //mutant:line-ahead
	}
	return r
}
