package record

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// Where the server tells no clock, a minimum hold is a session of its own, which nobody
// renews: the entry blocks until that has ended, too. Its TTL is what is left of the minimum
// hold on the owner's own clock when the owner first shows the token. No two clocks are
// compared.

// keptBy is the session that is the minimum hold of an entry, if it has one that is not
// void.
func (v *view) keptBy(e *queue.Entry) session.ID {
	if !e.Granted || e.MinHold == 0 { // broken, or over
		return session.ID{}
	}
	return v.kept[e.ID]
}

// keepsOn has an entry block for as long as its minimum hold has left.
func (v *view) keepsOn(e *queue.Entry, left time.Duration) {
	e.Shown = true
	e.MinHold = max(v.now.Clock+leftOf(left)-e.Since, 0) //mutant:record-minimum-hold-without-clock
}

// bySession reports whether minimum holds are sessions here.
func (s *Store) bySession() bool { return !s.traits.Clock }

// wishes has the rule know nothing of a minimum hold that has not begun.
func (v *view) wishes(id store.ID, e *queue.Entry) {
	if _, began := v.kept[id]; !began && e.MinHold > 0 {
		v.wish[id], e.MinHold = e.MinHold, 0
	}
}

// errNeedsKeep says that a hold is shown whose minimum hold has to begin.
var errNeedsKeep = errors.New("the minimum hold has not begun")

// beginKeep begins the minimum hold of a claim whose owner shows its token for the first time.
// The zero ID: there is none, or nothing is left of it, or it has begun.
func (s *Store) beginKeep(ctx context.Context, m *localClaim) (id session.ID, err error) {
	if m == nil || !s.bySession() {
		return id, nil
	}
	s.mu.Lock()
	left := m.keep - store.Now().Sub(m.since)
	none := m.token == 0 || m.shown || left <= 0
	s.mu.Unlock()
	if none {
		return id, nil
	}
	return s.keepFor(ctx, left)
}

// keepFor begins a session that lasts so long and is not renewed.
func (s *Store) keepFor(ctx context.Context, d time.Duration) (id session.ID, err error) {
	id = session.NewID()
	_, err = s.b.Begin(ctx, id, min(s.ticks(d), s.d.MaxTTL))
	return id, err
}

// keep has the session be the minimum hold of an entry, which has not begun.
func (v *view) keep(id store.ID, by session.ID) {
	e := v.find(id)
	if e == nil || !e.Granted || e.Broken != nil || v.wish[id] == 0 {
		return
	}
	if delete(v.wish, id); by != (session.ID{}) { // else it is over
		v.kept[id] = by
		v.keepsOn(e, time.Duration(unending)*time.Microsecond)
	}
}
