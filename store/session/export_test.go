package session

import "time"

// RenewPart is the part of its TTL after which a session is renewed.
const RenewPart = renewPart

// WatchedForTest is how many sessions of others are watched.
func (s *Set) WatchedForTest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// PatienceForTest is how long a renewal waits for its answer.
func PatienceForTest(lasts, trip time.Duration) time.Duration { return patience(lasts, trip) }

// PauseForTest is the longest time after the first renewal that failed until the next.
func PauseForTest(lasts time.Duration) time.Duration { return min(lasts/24, 20*time.Millisecond) }

// SeenForTest is the number of sessions of which an observation is kept.
func (u *Unchanged) SeenForTest() int { return len(u.seen) }
