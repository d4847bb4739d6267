package pgstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Poll implements [store.Poller]. For a claim that waits in a session, it answers like an ask that
// has nothing to write.
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, false)
	defer s.exit(m)
	if err := s.gone(ctx, m); err != nil {
		return store.Answer{}, err
	}
	if sess := s.waitsIn(m); sess != nil {
		a, _, err := (&asking{Store: s, m: m, c: &c, kept: sess, again: true, polls: true}).look(ctx)
		return a, err // has no From if there is something to write, which only an ask does
	}
	f, err := s.lookAhead(ctx, c.Name, c.ID)
	if err != nil {
		return store.Answer{}, err
	}
	a, err := f.poll(&c)
	return a, s.mismatch(ctx, &c, f, err)
}

// waitsIn returns the session that keeps a waiting claim, as last returned to its owner, or nil.
func (s *Store) waitsIn(m *localClaim) *session.Session {
	if m == nil {
		return nil
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if m.token != 0 || m.to != nil { //mutant:pg-poll-of-a-hold-is-a-grant
		return nil
	}
	if anySuspect(m.sess) { // an ask must move it into another //mutant:pg-poll-in-a-suspect-session
		return nil
	}
	return m.sess
}
