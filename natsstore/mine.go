package natsstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A state of a claim, as far as its process knows.
type state int

const (
	asked  state = iota // sent, and not answered
	placed              // it waits
	held                // its owner was told that it is granted
	gone                // it was lost, or its time was over
)

// mine is a claim of this process. It is guarded by Store.mu; what the contract
// says is asked for one after the other is changed by that operation alone.
type mine struct {
	name    string
	id      store.ID
	sess    *session
	state   state
	why     error         // of gone
	ends    store.Instant // ended then, unless it is renewed
	busy    int           // operations under way
	drop    bool          // to be ended, however often that takes
	unclear bool          // an ask for it was not answered, and may slip in at any time
}

// hold begins an operation on a claim of ours; nil if there is none of the id.
func (s *Store) hold(id store.ID) *mine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mine[id]
	if m != nil {
		m.busy++
	}
	return m
}

// done ends an operation on a claim of ours.
func (s *Store) done(m *mine) {
	if m == nil {
		return
	}
	s.mu.Lock()
	m.busy--
	s.mu.Unlock()
}

// add notes a claim of ours, which is busy.
func (s *Store) add(m *mine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.busy++
	s.mine[m.id] = m
}

// into puts the claim into a session. s.mu is held.
func (m *mine) into(sess *session) {
	if m.sess != nil {
		m.sess.keeps--
	}
	if m.sess = sess; sess != nil {
		sess.keeps++
	}
}

// leave forgets a claim of ours: nothing of it is stored any more, or nothing
// that needs its process. s.mu is held.
func (s *Store) leave(m *mine) {
	m.into(nil)
	if s.mine[m.id] == m {
		delete(s.mine, m.id)
	}
}

// lose notes that a claim of ours is gone for its owner, and forgets it when he
// has heard. s.mu is held.
func (s *Store) lose(m *mine) {
	m.state, m.drop = gone, false
	// Who asks for it until then is told; no process asks that late.
	m.ends = store.Now().Add(time.Minute)
}

// lost notes why an operation on a claim of ours was told lost. What was broken
// stays in the way as long as it would have lasted.
func (s *Store) lost(m *mine, why error, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.state == gone:
	case there:
		m.state, m.why, m.drop = gone, why, true
	default:
		s.lose(m)
		m.why = why
	}
}

// overdue is what becomes of a claim whose time is over: it is ended, by its
// own process, as it has not crashed. s.mu is held.
func (s *Store) overdue(m *mine) {
	if m.state == gone && !m.drop {
		s.leave(m)
		return
	}
	was := m.state == gone
	why := m.why
	s.lose(m)
	if was {
		m.why = why
	}
	m.drop = true
	m.busy++
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, longestTask)
		defer cancel()
		err := s.expire(ctx, m)
		s.mu.Lock()
		defer s.mu.Unlock()
		m.busy--
		if err != nil && (m.sess == nil || !m.sess.dead || store.Now() < m.sess.over().Add(m.sess.ttl)) {
			m.ends = store.Now().Add(200 * time.Millisecond)
		} else {
			m.drop = false
			m.into(nil)
		}
		s.poke()
	})
}

// expire ends an entry of ours, as if the time of its session were over.
func (s *Store) expire(ctx context.Context, m *mine) error {
	s.mu.Lock()
	force := m.unclear //mutant:nats-ask-overdue-withdrawn-without
	s.mu.Unlock()
	err := s.change(ctx, m.name, how{force: force}, func(r *record) (queue.Change, error) {
		if e := r.find(m.id); e != nil {
			e.Expires = min(e.Expires, r.now.Clock)
		}
		return r.q.Release(r.now, &store.Hold{Name: m.name})
	})
	return err
}

// poke has what is due looked at anew. It may be called with s.mu held.
func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tend renews the sessions and ends what was not renewed, until Close.
func (s *Store) tend() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		// Not more often than this, however much there is to do.
		next := s.due(store.Now())
		timer.Reset(max(next.Sub(store.Now()), 20*time.Millisecond))
	}
}

// due begins what is due, and returns when to look again at the latest. A timer
// stands still while the machine is suspended, so that is soon.
func (s *Store) due(now store.Instant) (next store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(time.Second)
	at := func(when store.Instant) bool {
		if when > now {
			next = min(next, when)
		}
		return when <= now
	}
	for _, sess := range s.open() {
		switch {
		case sess.flight != nil:
		case sess.dead:
			if at(sess.again) {
				sess.flight = &flight{}
				s.tasks.Go(func() { s.shut(sess) })
			}
		case now >= sess.over():
			s.died(sess)
			next = now
		default:
			at(sess.over())
			if at(max(sess.renewed.Add(sess.ttl/3), sess.again)) {
				s.renew(sess)
			}
		}
	}
	for _, m := range s.mine {
		if m.busy == 0 && at(m.ends) {
			s.overdue(m)
		}
	}
	if at(s.sweepAt) {
		s.sweepAt = now.Add(sweepEvery)
		s.tasks.Go(s.sweep)
	}
	for id, since := range s.over { // its key is gone by then, and its entries are met rarely
		if now > since.Add(10*time.Minute) {
			delete(s.over, id)
		}
	}
	for id, until := range s.alive {
		if now > until.Add(10*time.Minute) {
			delete(s.alive, id)
		}
	}
	return next
}
