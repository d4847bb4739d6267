package pgstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An orphan is an entry in a session of this process that this process does not know. It is left if
// another process begins to adopt a hold of this one, gives it another id, and dies before it has
// called this process and moved the hold. The session does not end as long as this process keeps
// anything in it, so nothing else would remove the orphan. A process that finds its hold lost looks
// for such an entry.

// looksFor schedules a search for orphans of a name, at an instant or earlier. claims.mu is held.
func (c *claims) looksFor(name string, at store.Instant) {
	if was, looks := c.orphans[name]; !looks || at < was {
		if c.orphans == nil {
			c.orphans = map[string]store.Instant{}
		}
		c.orphans[name] = at
	}
}

// dueOrphans starts due searches for orphans, a few at a time. claims.mu is held.
func (s *Store) dueOrphans(now store.Instant) {
	c := &s.claims
	for name, at := range c.orphans {
		if at > now || c.looking == renewers {
			continue
		}
		delete(c.orphans, name)
		c.looking++
		c.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 4*time.Second)
			defer cancel()
			err := s.takeOrphans(ctx, name)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.looking--; err != nil && !store.Definite(err) {
				c.looksFor(name, store.Now().Add(orphanPause))
			}
			s.poke()
		})
	}
}

// orphanPause is the pause after a failed search for orphans.
const orphanPause = 5 * time.Second

// takeOrphans removes the orphans of a name, like claims that are no longer renewed.
func (s *Store) takeOrphans(ctx context.Context, name string) error {
	f, err := s.look(ctx, name)
	if err != nil {
		return err
	}
	var all over
	s.claims.mu.Lock()
	for id, in := range f.in {
		if s.sessions.Own(in) != nil &&
			s.claims.of[id] == nil { //mutant:pg-what-is-known-is-no-orphan
			all.add(append(id[:], in[:]...), 0) // only while it is in this session: its adopter may be moving it //mutant:pg-orphan-that-was-moved
		}
	}
	s.claims.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	return s.drop(ctx, name, all, true)
}
