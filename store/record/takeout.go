package record

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// maxAbreast is how many requests one call has under way at once.
const maxAbreast = 64

// due removes the claims that were not renewed, and returns when it has to run next.
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
		case begun == maxAbreast: // the others follow the next time
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

// takeOut removes a claim of this process that has expired or could not be released. The latter is released on its
// owner's terms, so that it blocks for as long as if the release had been answered.
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
		err = s.gives(ctx, m, &store.Hold{Name: m.name, ID: m.id}, func(v *view) (queue.Change, error) {
			if e := v.find(m.id); e != nil {
				e.Expires = min(e.Expires, v.now.Clock)
			}
			return v.q.Release(v.now, &store.Hold{Name: m.name})
		})
	}
	if errors.Is(err, store.ErrLost) {
		err = nil // it has ended or expired
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

// takeOutPatience is the timeout of one attempt to remove a claim: others wait for its name, and a lost request must
// not block them for much longer than the claim would have lasted.
func (s *Store) takeOutPatience(m *localClaim) time.Duration {
	trip := s.records.roundTrip()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.sess == nil {
		return longest
	}
	return min(max(m.sess.TTL/4, 8*trip)<<min(m.failed, 6), longest) //mutant:record-take-out-hangs
}

// longestPause is the longest pause between two attempts to remove a claim: once the server answers again, the name
// is free soon, however long the outage was.
func longestPause(m *localClaim) time.Duration {
	const most = 5 * time.Second
	if m.sess == nil {
		return most
	}
	return min(max(m.sess.TTL/4, 100*time.Millisecond), most) //mutant:record-take-out-pauses
}

// forGood reports whether the claim no longer needs removal: its session ended long
// ago, and any waiter has asked since. Store.mu is held.
func (m *localClaim) forGood(now store.Instant) bool {
	if m.unsure || m.moving != nil || m.sess == nil {
		return false
	}
	st := m.sess.State()
	return st.Over && now > st.Renewed.Add(st.Lasts+max(m.sess.TTL, store.MaxPositionTTL)) //mutant:record-take-out-given-up
}

// A sweep removes entries that crashed holders left in unused names.
const (
	sweepEvery = time.Minute
	sweepOdds  = 8              // one in so many new processes sweeps at once, as it may not live for a minute
	sweepAge   = 24 * time.Hour // least age of the newest write to a record
	sweepMost  = 100            // names per sweep
	sweepLimit = 10 * time.Second
)

// sweep settles the names that were not written for a long time.
func (s *Store) sweep(ctx context.Context, age time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	list := s.b.List
	if b, ok := s.b.(Sweeper); ok {
		list = b.Sweep //mutant:record-sweeps-by-turns
	}
	names := 0
	for r, err := range list(ctx, age) {
		if err != nil && ctx.Err() != nil || names == sweepMost {
			return // a later sweep tries again, here or in another process
		}
		if err != nil || len(r.Data) == 0 { // unreadable, or not written yet
			continue
		}
		if v, err := decode(r.Data, s.records.present()); err != nil || len(v.q.Entries)+len(r.Inbox) == 0 { //mutant:record-sweep-of-notes
			continue
		}
		names++
		_ = s.records.settleName(ctx, r.Name) // what fails is tried again //mutant:record-sweep-settles
	}
}
