package mysqlstore

import "sync"

// seen remembers names that have a row: then a shorter statement does. That it
// forgets, or is wrong, costs a statement.
type seen struct {
	mu    sync.Mutex
	names map[string]struct{}
}

const seenMost = 10_000

func (s *seen) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.names[name]; ok {
		return
	}
	if s.names == nil || len(s.names) >= seenMost {
		s.names = map[string]struct{}{}
	}
	s.names[name] = struct{}{}
}

func (s *seen) is(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.names[name]
	return ok
}
