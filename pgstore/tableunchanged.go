package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// renewSessions renews the sessions that keep the holds. It repeats unanswered renewals, because a
// session does not wait for an answer for long.
func (s *Store) renewSessions(ctx context.Context, holds []store.Hold) {
	all := map[*session.Session]bool{}
	s.claims.mu.Lock()
	for i := range holds {
		if m := s.claims.of[holds[i].ID]; m != nil && m.sess != nil && !m.over {
			all[m.sess] = true
		}
	}
	s.claims.mu.Unlock()
	for try := 1; ; try++ {
		session.RenewAll(ctx, all)
		maps.DeleteFunc(all, func(sess *session.Session, _ bool) bool {
			st := sess.State()
			return st.Over || !st.Failing
		})
		if len(all) == 0 || try == repeats { //mutant:pg-session-renewed-once
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After((5 * time.Millisecond) << try):
		}
	}
}

// unseen reports whether the row of a hold was not read for half a TTL. A manual deletion of the row causes no
// call. claims.mu is held.
func (m *localClaim) unseen() bool { return store.Now() >= m.seen.Add(m.sess.TTL/2) } //mutant:pg-rows-are-seen

// rests reports whether a hold needs nothing if its row is as expected. claims.mu is held.
func (m *localClaim) rests(h *store.Hold) bool {
	return m.sess != nil && m.to == nil && m.sess.TTL >= h.TTL && //mutant:pg-hold-stays-in-the-short-session
		!m.alone && //mutant:pg-alone-is-written
		(m.moved || !h.ByHand) && !m.reads && !m.handed && m.token != 0 && m.token == h.Token && m.name == h.Name && h.NewID == (store.ID{}) && h.Used <= m.used && (h.Owner == "" || h.Owner == m.owner)
}

// unchanged renews a hold whose row need not be read or written: its session was renewed since this
// renewal began, and that showed no call.
func (s *Store) unchanged(h *store.Hold, began store.Instant) (r store.Renewal, done bool) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m := s.claims.of[h.ID]
	if m == nil || !m.rests(h) {
		return r, false
	}
	st := m.sess.State()
	if m.isOver() || st.Calls != m.calls { //mutant:pg-call-is-not-heeded
		return r, false
	}
	if st.Suspect { // the server's state may be old, or the session cannot be renewed: in both cases the hold leaves it //mutant:pg-suspect-is-not-heeded
		return r, false
	}
	if !isFresh(st, began) {
		return store.Renewal{TTL: h.TTL, Err: s.failed(fmt.Sprintf("renew %q", h.Name), errNotRenewed)}, true
	}
	if m.unseen() {
		return r, false
	}
	r = m.returned
	r.TTL, r.From = min(h.TTL, st.Lasts), st.Renewed
	s.renewed(m, r.TTL, r.From)
	return r, true
}

// isFresh reports whether a session was renewed since a renewal began.
func isFresh(st session.State, began store.Instant) bool {
	return !st.Failing && st.Renewed >= began //mutant:pg-renewal-is-not-fresh
}

var errNotRenewed = errors.New("the session of this process could not be renewed")

// renewed notes for how long a hold lasts. claims.mu is held.
func (s *Store) renewed(m *localClaim, ttl time.Duration, from store.Instant) {
	m.until = max(m.until, from.Add(ttl))
	m.ends = max(m.ends, store.Now().Add(ttl)) //mutant:pg-renewed-hold-is-taken-out
}
