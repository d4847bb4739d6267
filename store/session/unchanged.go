package session

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Reader reads and closes the records of sessions on a store without a clock.
type Reader interface {
	// ReadSession returns the session's TTL and its stamp, which each renewal
	// changes. An empty stamp: it has ended, or was never begun.
	ReadSession(ctx context.Context, id ID) (ttl time.Duration, stamp string, err error)

	// CloseSession ends the session for good if its stamp is still this one.
	// closed: it has ended, by this call or another process.
	CloseSession(ctx context.Context, id ID, stamp string) (closed bool, err error)
}

// Unchanged is Left for sessions of Life ByOwnClock: a session has ended when its
// record was seen unchanged for its TTL on the clock of this process, and is then
// closed. The zero Unchanged is ready, and safe for concurrent use.
type Unchanged struct {
	mu   sync.Mutex
	seen map[ID]sighting
}

// A sighting is a stamp, and when this process first saw it.
type sighting struct {
	stamp string
	since store.Instant
	last  store.Instant // when it was last asked for
	ends  store.Instant // when it will have been seen for its TTL
	lived bool          // this process has seen it change within its TTL: it lived then
}

// forgotten is how long an unused session is remembered.
const forgotten = time.Hour

// Left does what [Backend.Left] does, by the sessions' records, read with r, and the
// clock of this process.
func (u *Unchanged) Left(ctx context.Context, r Reader, ids []ID) ([]time.Duration, error) {
	left := make([]time.Duration, len(ids))
	for i, id := range ids {
		ttl, stamp, err := r.ReadSession(ctx, id) //mutant:session-seen-since-the-question
		if err != nil {
			return nil, err
		}
		if stamp == "" {
			u.Forget(id)
			continue
		}
		// The stamp was written before it was read: its TTL has begun by now.
		if left[i] = u.Seen(id, ttl, stamp); left[i] > 0 {
			continue
		}
		closed, err := r.CloseSession(ctx, id, stamp) //mutant:session-passed-over-unclosed
		if err != nil {                               //mutant:session-unanswered-close-is-none
			return nil, err
		}
		if !closed { // it was renewed meanwhile //mutant:session-renewed-is-closed
			left[i] = ttl
			continue
		}
		u.Forget(id)
	}
	return left, nil
}

// Forget drops what was seen of a session that has ended.
func (u *Unchanged) Forget(id ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.seen, id) //mutant:session-ended-is-kept
}

// Seen notes that a session was read with this stamp, and returns for how long it must still be seen with it until its
// TTL has passed. Not above 0: the TTL has passed, and the session may be closed, by a write that depends on the stamp.
// Call it once the read was answered.
func (u *Unchanged) Seen(id ID, ttl time.Duration, stamp string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := store.Now()
	s, known := u.seen[id]
	if !known || s.stamp != stamp { //mutant:session-stamp-not-compared
		s = sighting{stamp: stamp, since: now, lived: known && now.Sub(s.last) <= ttl} //mutant:session-seen-alive
	}
	s.last, s.ends = now, s.since.Add(ttl)
	if u.seen == nil {
		u.seen = map[ID]sighting{}
	}
	u.seen[id] = s
	if len(u.seen) > 10_000 {
		for other, s := range u.seen {
			if now.Sub(s.last) > forgotten {
				delete(u.seen, other)
			}
		}
	}
	return s.ends.Sub(now)
}

// Doubt returns for how long at most a session must still be watched until this process knows whether it lives. It is 0
// for a session that this process has seen change within its TTL, and for one that it was not asked about.
func (u *Unchanged) Doubt(id ID) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, known := u.seen[id]
	if !known || s.lived {
		return 0
	}
	return max(s.ends.Sub(store.Now()), soon) // only one more ask about it closes it //mutant:session-doubted-until-closed
}
