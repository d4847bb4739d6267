package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// How waiters are reported to the observer, and how many there may be.

// An ahead is the part of an answer to a waiter that is reported when it changes.
type ahead struct {
	told             bool
	holding, waiting int
	first            store.ID    // of the first holder
	owner            store.Owner // of the first holder, if the store knows no id
}

// tellWaiting reports to the observer that the claim waits, if it has just begun to wait
// or what is ahead of it has changed.
func (r *request) tellWaiting(a *store.Answer) {
	if r.s.Observer != nil && r.pos.isNews(a) {
		r.w.waiting(&r.values, r.claim.ID, r.began, a, time.Now())
	}
}

// isNews notes who is ahead by the answer, and reports whether that has changed.
func (p *ahead) isNews(a *store.Answer) bool {
	now := ahead{told: true}
	now.holding = a.Holding //mutant:news-of-number-holding
	now.waiting = a.Waiting //mutant:news-of-number-ahead
	if len(a.Holders) > 0 {
		now.first = a.Holders[0].ID //mutant:news-of-first-holder
		if now.first == (store.ID{}) {
			now.owner = a.Holders[0].Owner //mutant:news-of-first-owner
		}
	}
	if now == *p { //mutant:waiting-each-answer
		return false
	}
	*p = now
	return true
}

// waiting reports to the observer who is ahead of a claim.
func (w *Target) waiting(of *values, id store.ID, began clock.Instant, a *store.Answer, when time.Time) {
	if s := w.l.s; s.Observer != nil {
		s.notify(w.event(EventWaiting, of, id, began, w.refusal(a, when, nil)))
	}
}

// A past counts the claims that wait for a name but bypass its local queue, as they have
// another limit.
type past struct {
	n       int      // how many wait now, after a refusal
	refused *refused // the store's last answer to one of them
}

// errOnlyTry means that a claim may not wait, as MaxWaiting claims wait already, but may
// be granted at once.
var errOnlyTry = errors.New("a try only")

// mayWait counts a claim that the store has refused as waiting, before that is reported.
// It returns false if the claim may not wait, as MaxWaiting claims wait already.
func (g *localQueues) mayWait(r *request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := &r.past
	if r.p != nil {
		counts = &r.p.waits
	}
	if !*counts && g.full(r.w) { //mutant:counted-late
		return false
	}
	first := !*counts
	*counts = true
	if r.p != nil {
		r.p.told = true
		return true
	}
	at := g.past[r.w.name]
	if at == nil {
		at = &past{}
		g.past[r.w.name] = at
	}
	if at.refused = r.refused; first {
		at.n++ //mutant:past-the-line-waits
	}
	return true
}

// leavePast notes that the wait of a claim has ended, if the claim is counted in a past.
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

// full reports whether as many claims of the process wait for the name as the target allows. A claim waits if it is or
// was in line, or if the store has refused it. g.mu is held.
func (g *localQueues) full(w *Target) bool {
	most := w.l.s.MaxWaiting
	return most > 0 && g.waits(w.name) >= most
}

// waits returns how many claims of the process wait for the name. g.mu is held.
func (g *localQueues) waits(name string) (n int) {
	if past := g.past[name]; past != nil {
		n = past.n
	}
	at := g.m[name]
	if at == nil {
		return n
	}
	for _, p := range at.inside {
		if p.waits {
			n++
		}
	}
	return n + at.line
}

// mayFit reports whether the store may grant a new target at once. That is so if no claim of the process is known to wait
// in the store, and the target fits in addition to all claims that are inside or in line. g.mu is held.
func (g *localQueues) mayFit(w *Target) bool {
	at := g.m[w.name]
	if g.past[w.name] != nil || at == nil || at.hold != nil || at.leaving {
		return false
	}
	if slices.ContainsFunc(at.inside, func(p *waiter) bool { return p.told }) {
		return false
	}
	return at.limit != w.limit || at.weight+at.lineWeight+w.weight <= at.limit //mutant:refused-though-it-fits
}

// ahead returns who is ahead of a new claim. g.mu is held.
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
