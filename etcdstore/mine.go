package etcdstore

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A state of a claim, as far as its process knows.
type state int

const (
	asked  state = iota // sent, and not answered
	placed              // it waits
	held                // its owner was told that it is granted
	gone                // it was lost, or its time was over; its owner has not heard
)

// mine is a claim of this process. It is guarded by Store.mu; what the contract
// says is asked for one after the other is changed by that operation alone.
type mine struct {
	name     string
	id       store.ID
	key      string
	limit    int64
	asked    int64 // the weight in the key
	sess     *session
	state    state
	ends     store.Instant // deleted then, unless it is renewed
	busy     int           // operations under way
	drop     bool          // to be deleted, however often that takes
	left     bool          // its owner has given it back
	unrun    bool          // it was withdrawn: nobody ran under it
	unclear  bool          // an ask for it was not answered, and may slip in at any time
	late     bool          // so was a deletion of its key
	token    int64         // of the grant; 0: not granted, as far as its owner knows
	n        int           // the size of the block, also while it waits
	since    store.Instant
	tell     store.Instant // when to store the token, which others cannot know; 0: it is no secret
	keep     time.Duration // minimum hold
	watching *watching
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

// forget forgets a claim of ours: nothing of it is stored any more. s.mu is held.
func (s *Store) forget(m *mine) {
	m.unwatch()
	m.into(nil)
	if s.mine[m.id] == m {
		delete(s.mine, m.id)
	}
}

// lost notes that a claim of ours is gone for its owner, and forgets it when he
// has heard.
func (s *Store) lost(m *mine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.unclear { // an ask for it may yet arrive //mutant:etcd-lost-searched
		s.dropSoon(m)
		return
	}
	s.lose(m)
}

// lose is lost. s.mu is held.
func (s *Store) lose(m *mine) {
	m.unwatch()
	m.state = gone
	// Who asks for it until then is told; no process asks that late.
	m.ends = store.Now().Add(time.Minute)
}

// overdue is what becomes of a claim whose time is over: it is deleted, by its
// own process, as it has not crashed. s.mu is held.
func (s *Store) overdue(m *mine) {
	if m.state == gone && !m.drop {
		s.forget(m)
		return
	}
	s.lose(m)
	m.drop = true
	m.busy++
	s.tasks.Go(func() {
		ctx, cancel := s.bound(s.ctx)
		defer cancel()
		_, err := s.remove(ctx, m)
		s.mu.Lock()
		defer s.mu.Unlock()
		m.busy--
		if err != nil && m.sess != nil && !m.sess.dead {
			m.ends = store.Now().Add(200 * time.Millisecond)
		} else {
			s.dropped(m)
		}
		s.poke()
	})
}

// tellAfter is how long a token that others cannot know stays so: a hold that
// does not last that long costs no write.
const tellAfter = time.Second

// told stores the token of a hold. s.mu is held.
func (s *Store) told(m *mine) {
	m.tell = 0
	m.busy++
	s.tasks.Go(func() {
		defer s.done(m)
		ctx, cancel := s.bound(s.ctx)
		defer cancel()
		v, err := s.look(ctx, m.name)
		if err != nil {
			return // the next renewal does it
		}
		if r := v.find(m.id); r != nil && r.Token == 0 && r.Break == "" {
			r.Token = m.token
			_, _ = s.rewrite(ctx, r, nil)
		}
	})
}

// dropped notes that the key of the claim was deleted. s.mu is held.
func (s *Store) dropped(m *mine) {
	m.drop = false
	s.expectLate(m)
	m.into(nil)
}
