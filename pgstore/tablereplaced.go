package pgstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// If the server of a session was replaced, or that session alone cannot be renewed, its entries
// move into another session or are found to be lost (law 15 of the records). A hold moves with its
// next renewal, like one that leaves the short session; a position moves here, with its next ask.

// anySuspect reports whether any of the sessions is suspect.
func anySuspect(all ...*session.Session) (is bool) {
	for _, sess := range all {
		is = is || sess != nil && sess.State().Suspect
	}
	return is
}

// leavesSuspect moves a position from a suspect session into the present one, before its claim is
// asked for again. It sends an unanswered move again. If the position is missing, the ask finds
// out.
func (s *Store) leavesSuspect(ctx context.Context, m *localClaim, c *store.Claim) error {
	s.claims.mu.Lock()
	was, to, also, until, waits := m.sess, m.to, m.also, m.until, m.token == 0
	s.claims.mu.Unlock()
	if !waits || was == nil || to == nil && !anySuspect(was) { //mutant:pg-position-in-a-suspect-session
		return nil
	}
	into := to
	if to == nil || anySuspect(to) {
		var err error
		if into, err = s.sessions.Present(ctx, max(was.TTL, min(c.PositionTTL, c.TTL))); err != nil {
			return s.failed(fmt.Sprintf("ask for %q", c.Name), err)
		}
	}
	if k := (&keeper{into, into.Fresh()}); !k.outlasts(ctx, until) { //mutant:pg-position-moves-into-a-session-that-ends-before-it
		return s.failed(fmt.Sprintf("ask for %q", c.Name), errNotRenewed)
	}
	var from array
	for _, sess := range []*session.Session{was, to} {
		if sess != nil && sess != into {
			from.session(sess.ID)
		}
	}
	for _, in := range also {
		from.session(in)
	}
	s.claims.mu.Lock()
	m.moves(into) //mutant:pg-position-is-in-either
	s.claims.mu.Unlock()
	moved := false
	err := s.run(ctx, s.do.askMove, []any{[]byte(c.Name), c.ID[:], from.text(), into.ID[:]}, func() { moved = false }, func(scan func(...any) error) error {
		moved = true
		var durable *string
		return scan(&durable)
	})
	if err != nil && !isNoTable(err) {
		return s.failed(fmt.Sprintf("ask for %q", c.Name), err)
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if m.to, m.also = nil, nil; moved {
		m.into(into)
	}
	return nil
}
