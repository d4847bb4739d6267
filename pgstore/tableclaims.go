package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// A localClaim is the state of a claim of this process. It is guarded by claims.mu. If the contract
// serializes an operation, that operation alone changes the fields that belong to it.
type localClaim struct {
	name string
	id   store.ID

	sess      *session.Session // keeps its entry; nil: it has an expiry of its own
	to        *session.Session // target of an unanswered statement that moves it
	also      []session.ID     // targets of earlier unanswered moves
	late      int64            // server time in µs after which an unanswered ask adds no entry
	comes     store.Instant    // until when an unanswered ask may still have an effect; 0: all were answered
	until     store.Instant    // it lasts at least until then, as returned to its owner
	ends      store.Instant    // it is removed then, unless it is renewed
	over      bool             // its session has ended, or it was removed
	out       bool             // it has expired and is being removed: it is lost from then on
	left      bool             // its owner has given it up
	back      *store.Hold      // the hold as its owner released it; nil: it did not, or what is left has expired
	announces bool             // its changes are announced to watchers of the name
	busy      int              // operations under way
	tries     int              // failed attempts to remove it

	calls    int64         // of its session, before the row was last read or written
	seen     store.Instant // the row was read or written then or later
	reads    bool          // its next renewal must read or write the row
	handed   bool          // it may get another id at any time: a renewal that gives it one was sent
	moved    bool          // a statement that moves it into a session was sent
	alone    bool          // it has an expiry of its own for good, though it may still be in the session in which it waited
	token    int64         // of its grant, once returned to its owner; 0 before
	used     int64
	owner    string
	returned store.Renewal // its state, as last returned to its owner
	heard    int64         // the token of its grant, from a notification

	asked    bool          // it may be asked to give up: its renewals read why
	askedAt  store.Instant // when a notification said so
	asks     string        // why it asks the holders to give up, while it waits
	uncalled []session.ID  // sessions of holders still to be called about that
	upgrade  int32         // the turn of the upgrade that asks; 0: none
}

// claims has the claims of this process.
type claims struct {
	mu    sync.Mutex
	of    map[store.ID]*localClaim
	tends bool
	tasks sync.WaitGroup
	wake  chan struct{} // something may be due

	late     time.Duration // how late an ask may reach the server and still add an entry
	patience time.Duration // how long the owner may repeat an unanswered release

	orphans map[string]store.Instant // names, and when to search them for orphans
	looking int                      // searches under way

	now   int64 // server time of an answer, in µs
	heard store.Instant
}

const (
	// remembered is how long a lost claim is remembered.
	remembered = time.Minute
	// mostLate is claims.late: no caller waits that long for an ask.
	mostLate = 10 * time.Second
	// leftPatience is claims.patience.
	leftPatience = time.Second
)

// clockBest is how long the answer with the largest time counts. Then a newer one replaces it,
// because the local clock drifts and the server's may be set.
const clockBest = time.Second

// hear notes the server time of an answer.
func (c *claims) hear(now int64) {
	heard := store.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	age := heard.Sub(c.heard)
	if now != 0 && (c.heard == 0 || age > clockBest || now >= c.now+age.Microseconds()) { //mutant:pg-clock-is-never-set-back
		c.now, c.heard = now, heard
	}
}

// serverNow estimates the server's clock and is never ahead of it. claims.mu is held.
func (c *claims) serverNow() int64 { return c.now + store.Now().Sub(c.heard).Microseconds() }

// expects returns for how long an unanswered ask of a claim may still have an effect. claims.mu is
// held.
func (c *claims) expects(m *localClaim) time.Duration {
	here := m.comes.Sub(store.Now())
	if m.late == 0 { // it asked for a free name, or the server's clock is unknown
		return here
	}
	return max(here, time.Duration(m.late-c.serverNow())*time.Microsecond) //mutant:pg-late-by-the-servers-clock
}

// enter begins an operation on a claim. If the claim is unknown, enter creates it with makes, and
// otherwise returns nil.
func (s *Store) enter(name string, id store.ID, makes bool) *localClaim {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m := s.claims.of[id]
	if m == nil && makes {
		m = &localClaim{name: name, id: id, ends: store.Now()}
		s.claims.of[id] = m
		if !s.claims.tends {
			s.claims.tends = true
			s.claims.tasks.Go(func() { session.Tend(s.ctx, s.claims.wake, 10*time.Millisecond, s.due) })
		}
	}
	if m != nil {
		m.busy++
	}
	return m
}

func (s *Store) exit(m *localClaim) {
	if m == nil {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.busy--
}

// into notes which session keeps the claim, if any. claims.mu is held.
func (m *localClaim) into(sess *session.Session) {
	m.to, m.also = nil, nil
	if m.sess == sess {
		return
	}
	if m.sess != nil {
		m.sess.Leave()
	}
	if m.sess = sess; sess != nil {
		sess.Enter()
	}
}

// moves notes that a statement that moves the claim into a session is sent. claims.mu is held.
func (m *localClaim) moves(to *session.Session) {
	if m.to != nil && m.to != to {
		m.also = append(m.also, m.to.ID) //mutant:pg-third-session-is-forgotten
	}
	m.to = to
}

// isOver reports whether the claim is lost: it has expired, or its session, or the one to which it
// may have moved, has ended. claims.mu is held.
func (m *localClaim) isOver() bool {
	if !m.over && (m.sess != nil && m.sess.Over() || m.to != nil && m.to.Over()) { //mutant:pg-session-over-is-lost
		m.over, m.ends = true, store.Now()
		if m.to == nil { //mutant:pg-moved-out-of-an-ended-session
			m.ends = m.ends.Add(remembered)
		}
	}
	return m.over || m.out //mutant:pg-being-taken-out-is-lost
}

// goes reports whether what is stored of the claim expires by itself. claims.mu is held.
func (m *localClaim) goes() bool {
	return m.sess == nil && m.to == nil && m.comes == 0 //mutant:pg-unanswered-ask-may-have-been-done
}

// gone returns why a claim is lost, or nil. If it was broken and is still stored, the error has the
// reason.
func (s *Store) gone(ctx context.Context, m *localClaim) error {
	if m == nil {
		return nil
	}
	s.claims.mu.Lock()
	over := m.isOver()
	s.claims.mu.Unlock()
	if !over {
		return nil
	}
	if f, err := s.look(ctx, m.name); err == nil {
		for i := range f.q.Entries {
			if e := &f.q.Entries[i]; e.ID == m.id && e.Broken != nil {
				return queue.LostFor(e.Stored())
			}
		}
	}
	return store.ErrLost
}

// leave notes that the owner has given the claim up. back is the hold as the owner released it, or
// nil if it has expired. done: nothing of it is stored, unless an ask takes effect late.
func (s *Store) leave(m *localClaim, back *store.Hold, done bool) {
	if m == nil {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.left, m.back = true, back
	late := s.claims.expects(m) > 0                          //mutant:pg-late-ask-is-taken-out
	if done && !late || m.goes() && store.Now() >= m.until { //mutant:pg-unanswered-release-is-repeated
		s.forget(m)
		return
	}
	m.ends = store.Now()
	if !done { // the owner repeats the release before that
		m.ends = m.ends.Add(s.claims.patience)
	}
	s.poke()
}

// asks notes that a claim is asked for: its owner will ask again, or give it up.
func (s *Store) asks(m *localClaim, c *store.Claim) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if !m.left && !m.isOver() {
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL)) //mutant:pg-unanswered-ask-is-taken-out-at-once
	}
}

// forget drops a claim without an entry, or whose entry expires by itself. claims.mu is held.
func (s *Store) forget(m *localClaim) {
	m.into(nil)
	if s.claims.of[m.id] == m {
		delete(s.claims.of, m.id)
	}
}

// poke makes the background goroutine check for due work.
func (s *Store) poke() {
	select {
	case s.claims.wake <- struct{}{}:
	default:
	}
}

// due starts due work and returns when to check again at the latest. That is soon, because a timer
// stands still while the machine is suspended.
func (s *Store) due(now store.Instant) (next store.Instant) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	next = now.Add(time.Second)
	s.dueOrphans(now)
	begun := 0
	for _, m := range s.claims.of {
		m.isOver()
		switch {
		case m.busy > 0:
		case m.ends > now:
			next = min(next, m.ends)
		case m.comes == 0 && m.over && m.to == nil:
			s.forget(m)
		case m.goes() && (!m.left || now >= m.until):
			if now > m.ends.Add(remembered) {
				s.forget(m)
			}
		case begun == renewers: // the rest is for the next call
			next = now
		default:
			begun++
			m.busy++
			m.out = !m.left
			s.claims.tasks.Go(func() { s.takeOut(m) })
		}
	}
	return next
}

// takeOut removes an expired claim whose session continues. If its release was not answered,
// takeOut repeats that release, so that the hold blocks for as long as if it had been answered.
func (s *Store) takeOut(m *localClaim) {
	ctx, cancel := context.WithTimeout(s.ctx, 4*time.Second)
	defer cancel()
	s.claims.mu.Lock()
	last := m.comes == 0 || s.claims.expects(m) < 0 //mutant:pg-late-ask-is-awaited
	back, announces := m.back, m.announces
	s.claims.mu.Unlock()
	var err error
	if back != nil { //mutant:pg-given-back-is-taken-out
		var f *found
		if f, err = s.giveBack(ctx, back); err == nil && f.lost() != nil { // a late ask may have added another entry
			_, err = s.giveBack(ctx, &store.Hold{Name: m.name, ID: m.id, Announce: announces}) //mutant:pg-late-behind-a-release
		}
	} else {
		err = s.drop(ctx, m.name, over{string(m.id[:]): 0}, announces) //mutant:pg-taken-out-announced
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.busy--
	if err == nil && last {
		m.into(nil)
		m.over, m.late, m.comes, m.ends = true, 0, 0, store.Now().Add(remembered)
		if m.left {
			s.forget(m)
		}
		return
	}
	if err == nil { // an ask that takes effect by then is undone then
		m.ends = store.Now().Add(max(s.claims.expects(m), 0) + 10*time.Millisecond)
		return
	}
	m.tries++
	m.ends = store.Now().Add(min((100*time.Millisecond)<<min(m.tries, 6), 5*time.Second))
}
