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
	first            store.ID // of the holders
	token            int64    // of that one
}

// tellWaiting tells the observer that the claim waits, if that is news: it has just
// begun to, or others are ahead now.
func (r *request) tellWaiting(a *store.Answer) {
	if r.s.Observer == nil {
		return
	}
	now := ahead{told: true, holding: a.Holding, waiting: a.Waiting}
	if len(a.Holders) > 0 {
		now.first, now.token = a.Holders[0].ID, a.Holders[0].Token
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

// waits is how many of the process wait for the name. g.mu is held.
func (at *localQueue) waits() int {
	n := at.line
	for _, p := range at.inside {
		if !p.sent {
			n++ // it has a position
		}
	}
	return n
}

// ahead is who is ahead of one that comes now. g.mu is held.
func (at *localQueue) ahead() (r refused) {
	switch {
	case at.hold != nil:
		r = *at.hold.refusal()
	case at.refused != nil:
		r = *at.refused
	default:
		r.when = time.Now()
	}
	r.answer.Waiting += len(at.inside) + at.line //mutant:line-ahead
	return r
}
