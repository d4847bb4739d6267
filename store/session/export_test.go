package session

import "time"

// RenewPart is of a session: after that part of it it is renewed.
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

// SeenForTest is of how many sessions something that was seen is kept.
func (u *Unchanged) SeenForTest() int { return len(u.seen) }
