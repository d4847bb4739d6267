package queue

import (
	"github.com/holdfast-go/holdfast/store"
)

// Expire ends now, as if they had expired, the entries whose owners dead
// reports as dead, and grants those that fit.
func (q *Queue) Expire(now Time, name string, dead func(store.Process) bool) Change {
	wrote := false
	for i := range q.Entries {
		if e := &q.Entries[i]; e.live(now) && dead(e.ID.Process()) { //mutant:dead-is-expired
			e.Expires = now.Clock
			wrote = true
		}
	}
	change := q.settle(now, name, store.ID{})
	change.Wrote = change.Wrote || wrote
	return change
}

// State returns the queue as List shows it. It leaves out expired entries, even if
// they have not been dropped yet.
func (q *Queue) State(now Time, name string) store.State {
	s := store.State{Name: name, Limit: int64(q.Limit()), Last: q.Last}
	if s.Limit == 0 && len(q.Entries) > 0 { // all are freed
		s.Limit = int64(q.Entries[0].Limit)
	}
	for i := range q.Entries {
		if e := &q.Entries[i]; e.end() > now.Clock {
			s.Entries = append(s.Entries, e.show(now))
		}
	}
	return s //mutant:state-whole
}
