package record

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// A localClaim is a claim of this process. It is guarded by Store.mu; what the contract
// says is asked for one after the other is changed by that operation alone.
type localClaim struct {
	name string
	id   store.ID

	sess    *session.Session // that keeps its entry; nil: not known
	moving  *session.Session // a move of its hold to this one was not answered (law 10)
	toCalls int64            // how often that had been called when the move began
	gone    error            // why it is lost for its owner; nil: it is not
	sent    bool             // it was asked for before: it may be in the record, whatever is known of the name
	waits   bool             // its owner was told that it waits, and has not begun to give up
	drop    bool             // to be taken out of the record, however often that takes
	taking  bool             // that is under way
	busy    int              // operations under way
	ends    store.Instant    // ended then, unless it is renewed

	calls   int64         // of its session, when its record was read last
	reads   bool          // its renewals have something to read or to write
	asked   bool          // a waiter asks to give it up, as far as we know: its renewals read why
	askedAt store.Instant // when a notification said so last: what was read before does not tell
	heard   *Notification // that told of its grant
	token   int64         // of its grant, once its owner was told; 0 before
	used    int64
	owner   string
	told    store.Renewal // how it stands, as its owner was told
	watched []session.ID  // those ahead of it
	also    []session.ID  // that were told to be, and when; no record read since has told
	alsoAt  store.Instant
	takenIn session.ID    // its entry was in the record under this one, as a notification said
	rest    chan struct{} // closed when its ask need not wait for that any more; nil: no ask does
	back    *store.Hold   // as its owner gave it back, and was not answered; nil: it did not
	read    store.Instant // when it was last read that its hold is there, for a renewal
	unsure  bool          // an ask or an adoption was not answered: its entry may be in any session
	failed  int           // times that it could not be taken out

	uncalled map[session.ID]bool // of holders that it asks to give up, and that are to be called yet; nil: not known. Its asks alone use it

	keep  time.Duration // its minimum hold, where that is a session of its own
	since store.Instant // when its owner was told of the grant
	shown bool          // the minimum hold has begun
}

// enter begins an operation on a claim of this process, or returns nil if there is no such
// claim; with makes it makes one.
func (s *Store) enter(at string, id store.ID, makes bool) *localClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.claims[id]
	if m == nil && makes {
		m = &localClaim{name: at, id: id, ends: store.Now()}
		s.claims[id] = m
	}
	if m != nil {
		m.busy++
	}
	return m
}

// exit ends what enter began.
func (s *Store) exit(m *localClaim) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.busy--; m.drop {
		s.poke() // while it was busy it was left alone //mutant:record-dropped-is-looked-at
	}
}

// into notes which session keeps the claim. Store.mu is held.
func (m *localClaim) into(sess *session.Session) {
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

// forget notes that nothing of the claim is stored any more. Store.mu is held.
func (s *Store) forget(m *localClaim) {
	if m == nil {
		return
	}
	m.into(nil)
	s.unwatch(m)
	if s.claims[m.id] == m {
		delete(s.claims, m.id)
	}
}

// nothing is forget, with the lock.
func (s *Store) nothing(m *localClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(m)
}

// remembered is for how long who asks for a claim that is lost is told why.
const remembered = time.Minute

// lose notes that the claim is gone for its owner. What is left of it is taken out by
// a write, under whichever session it is (law 10). Store.mu is held.
func (m *localClaim) lose(why error) {
	if m.gone == nil {
		m.gone, m.drop, m.waits, m.ends = why, true, false, store.Now()
	}
}

// check finds out whether the session of the claim has ended: then the claim is lost, with
// all others that it keeps (law 2). A hold whose move was not answered ends with
// the earlier of the two (law 10). Store.mu is held.
func (m *localClaim) check() {
	if m.gone != nil {
		return
	}
	if m.sess != nil && m.sess.Over() || m.moving != nil && m.moving.Over() {
		m.lose(store.ErrLost)
	}
}

// isGone is why a claim of ours is lost, or nil.
func (s *Store) isGone(m *localClaim) error {
	if m == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.check()
	return m.gone
}

// lost notes that an operation was told that the claim is lost. there: it blocks still,
// as it was broken.
func (s *Store) lost(m *localClaim, why error, there bool) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.gone != nil {
		return
	}
	m.gone, m.waits = why, false
	if there {
		m.ends = max(m.ends, store.Now()) // it is ended when it would have been
		m.drop = true
	} else {
		m.ends = store.Now().Add(remembered)
		m.into(nil) //mutant:record-lost-keeps-a-session
	}
}

// whyGone is why a claim is lost. If it was broken and blocks still the reason is looked
// up: somebody may have broken it since, or again.
func (s *Store) whyGone(ctx context.Context, m *localClaim, why error) error {
	v, err := s.look(ctx, m.name)
	if err != nil {
		return why
	}
	if e := v.find(m.id); e != nil && e.Broken != nil {
		return &store.LostError{Reason: e.Reason()}
	}
	return store.ErrLost
}

// maxAbreast is how many requests are on their way at once for one call.
const maxAbreast = 64

// due ends what was not renewed.
func (s *Store) due(now store.Instant) (next store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(time.Second)
	if now >= s.sweepAt {
		s.sweepAt = now.Add(sweepEvery)
		s.tasks.Go(func() { s.sweep(s.ctx, sweepAge) }) //mutant:record-sweep-begins
	}
	if s.settling {
		return now.Add(20 * time.Millisecond)
	}
	begun := 0
	for _, m := range s.claims {
		m.check()
		switch {
		case m.busy > 0 || m.taking:
		case m.ends > now:
			next = min(next, m.ends)
		case m.gone != nil && !m.drop:
			s.forget(m)
		case begun == maxAbreast: // the next time
			next = now
		default:
			m.lose(store.ErrLost)
			m.drop, m.taking = true, true
			begun++
			s.tasks.Go(func() { s.takeOut(m) })
		}
	}
	return next
}

// takeOut ends a claim of ours whose time is over, as its process has not crashed, or that
// could not be given back: that is given back as its owner said, so that it blocks for as long as if that had been answered.
func (s *Store) takeOut(m *localClaim) {
	ctx, cancel := context.WithTimeout(s.ctx, s.takeOutPatience(m))
	defer cancel()
	s.mu.Lock()
	back := m.back
	s.mu.Unlock()
	var err error
	if back != nil { //mutant:record-given-back-is-taken-out
		_, err = s.giveBack(ctx, m, back)
	} else {
		err = s.gives(ctx, m, m.name, m.id, func(v *view) (queue.Change, error) {
			if e := v.find(m.id); e != nil {
				e.Expires = min(e.Expires, v.now.Clock)
			}
			return v.q.Release(v.now, &store.Hold{Name: m.name})
		})
	}
	if errors.Is(err, store.ErrLost) {
		err = nil // it has gone, or has expired
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.taking = false
	now := store.Now()
	if err != nil && !m.forGood(now) {
		m.failed++
		m.ends = now.Add(min((100*time.Millisecond)<<min(m.failed, 6), longestPause(m)))
	} else {
		m.drop, m.ends, m.moving = false, now.Add(remembered), nil
		m.into(nil)
	}
	s.poke()
}

// takeOutPatience is how long it is waited for what takes a claim out, before that is sent anew: others wait for its name, and one
// request that got lost is not to keep it from them for much longer than the claim would have lasted.
func (s *Store) takeOutPatience(m *localClaim) time.Duration {
	trip := s.roundTrip()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.sess == nil {
		return longest
	}
	return min(max(m.sess.TTL/4, 8*trip), longest) //mutant:record-take-out-hangs
}

// longestPause is the most between two tries to take a claim out: once the server answers again its name is free soon, for how long
// it did not answer.
func longestPause(m *localClaim) time.Duration {
	const most = 5 * time.Second
	if m.sess == nil {
		return most
	}
	return min(max(m.sess.TTL/4, 100*time.Millisecond), most) //mutant:record-take-out-pauses
}

// forGood reports whether the claim needs no taking out any more: its session ended
// long ago. Store.mu is held.
func (m *localClaim) forGood(now store.Instant) bool {
	if m.unsure || m.moving != nil || m.sess == nil {
		return false
	}
	st := m.sess.State()
	return st.Over && now > st.Renewed.Add(st.Lasts+m.sess.TTL)
}
