package zkstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A lateAsk is an ask that was not answered, of a claim that its process is done with.
// The server may have read it on a connection that has broken, and do it after what
// was asked on the next one. Nobody would hold the node that it makes.
type lateAsk struct {
	name string
	id   store.ID
}

// expectLate notes that an ask of the claim may be done when nobody wants it any more.
// Its session takes no new claims, so that it ends, with whatever was made, as soon as
// it keeps none. Until then late asks are searched for. s.mu is held.
func (s *Store) expectLate(m *mine) {
	if !m.unclear || m.sess == nil { //mutant:zk-late-ask-retires-session
		return
	}
	m.sess.late = append(m.sess.late, lateAsk{m.name, m.id})
	s.retire(m.sess)
}

// searchLate deletes the nodes of late asks that were made.
func (s *Store) searchLate(sess *session) {
	s.mu.Lock()
	late := sess.late
	s.mu.Unlock()
	for _, l := range late {
		if s.ctx.Err() == nil {
			s.deleteLate(sess, l)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.searches = false
	sess.search = store.Now().Add(sess.lasts / 4)
	s.poke()
}

// deleteLate deletes the nodes of one late ask. What fails is done by the next search.
func (s *Store) deleteLate(sess *session, l lateAsk) {
	ctx, cancel := context.WithTimeout(s.ctx, longestCall)
	defer cancel()
	v, err := s.look(ctx, sess, l.name)
	if err != nil {
		return
	}
	for _, rows := range [][]row{v.rows, v.extra} {
		for i := range rows {
			if r := &rows[i]; r.id == l.id {
				_, _ = s.await(ctx, func() error {
					_, err := sess.conn.Multi(s.without(r)...)
					return err
				})
			}
		}
	}
}

// leaveNothing has deleted what a claim may have that was lost while it was asked for:
// its session ended, and it was asked for again in the next one.
func (s *Store) leaveNothing(m *mine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone && !m.drop && m.sess != nil && !m.sess.dead {
		s.dropSoon(m)
	}
}
