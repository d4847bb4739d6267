package record

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// A lapser ends sessions, as a server does if they are not renewed.
type lapser interface {
	Lapse(ids ...session.ID)
}

// DoubtForTest lets the store read a session's state each time that it matters.
func (s *Store) DoubtForTest() { s.sessions.Trust(0) }

// LapseForTest ends the sessions of the store, and returns when their entries are gone and
// the store has found that.
func (s *Store) LapseForTest(ctx context.Context, server lapser) error {
	server.Lapse(s.Sessions()...)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.Settle(ctx); err != nil {
		return err
	}
	// Entries that the store has forgotten, because the answer to their withdrawal was lost, are taken out too.
	for r, err := range s.b.List(ctx, 0) {
		if err == nil {
			err = s.records.settleName(ctx, r.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LapseShortForTest ends the session of a TTL, and lets the store find that.
func (s *Store) LapseShortForTest(server lapser, ttl time.Duration) {
	if sess := s.sessions.Begun(ttl); sess != nil {
		server.Lapse(sess.ID)
		sess.Wait(context.Background(), sess.Renew())
	}
}

// SessionForTest is the present session for a TTL.
func (s *Store) SessionForTest(ttl time.Duration) session.ID { return s.sessions.Begun(ttl).ID }

// ForgetForTest lets the store forget all unused names, as it does once they are too many.
func (s *Store) ForgetForTest() {
	r := s.records
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, n := range r.names {
		if r.mayForget(n) {
			delete(r.names, at)
		}
	}
}

// HearForTest renews the session for a TTL.
func (s *Store) HearForTest(ttl time.Duration) session.State {
	sess := s.sessions.Begun(ttl)
	return sess.Wait(context.Background(), sess.Renew())
}

// LeftForTest is what a session has left, on the clock of the record.
func LeftForTest(d time.Duration) int64 { return leftOf(d) }

// WaitingForTest is how many operations wait for the worker of a name.
func (s *Store) WaitingForTest(at string) int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return len(s.records.names[at].waiting)
}

// SweepForTest makes the next sweep due.
func (s *Store) SweepForTest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepAt = store.Now()
	s.poke()
}

// MarksForTest is how many marks a record has, and EntriesForTest how many entries.
func MarksForTest(data []byte) int { return len(mustDecode(data).marks) }

// EntriesForTest is how many entries a record has.
func EntriesForTest(data []byte) int { return len(mustDecode(data).q.Entries) }

func mustDecode(data []byte) *view {
	v, err := decode(data, queue.Time{})
	if err != nil {
		panic(err)
	}
	return v
}

// NotifyForTest delivers a notification.
func (s *Store) NotifyForTest(n Notification) { s.notified(n) }

// ToldForTest reports whether the claim has learned that another is ahead of it.
func (s *Store) ToldForTest(id store.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims[id].also) > 0
}

// ReadsForTest gives the store a record that was read by a request sent at that time.
func (s *Store) ReadsForTest(ctx context.Context, at string, r *Record, sent store.Instant) {
	a, err := s.records.apply(ctx, at, r, nil)
	if err != nil {
		panic(err)
	}
	s.deliver(a, sent, false)
}

// PatientForTest lets a request take as long as a stall of the machine.
func PatientForTest(d time.Duration) { longest = max(longest, d) }

// EndsForTest is when a claim of this process is taken out, unless it is renewed.
func (s *Store) EndsForTest(id store.ID) store.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[id].ends
}

// TogetherForTest reports whether two claims of this process are in one session.
func (s *Store) TogetherForTest(a, b store.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[a].sess == s.claims[b].sess
}

// ClaimsForTest is how many claims of this process are known.
func (s *Store) ClaimsForTest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}
