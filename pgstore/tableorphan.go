package pgstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An orphan is an entry in a session of this process that it does not know: another process has begun to adopt a
// hold of this one, which gave it another id, and has died before it called this one and moved the hold. No
// session's end would remove it as long as this process keeps anything in that session. A process that finds its
// hold lost looks for such an entry.

// looksFor has orphans of a name looked for at an instant, or before. claims.mu is held.
func (c *claims) looksFor(name string, at store.Instant) {
	if was, looks := c.orphans[name]; !looks || at < was {
		if c.orphans == nil {
			c.orphans = map[string]store.Instant{}
		}
		c.orphans[name] = at
	}
}

// dueOrphans begins to look for the orphans of some names that are due. claims.mu is held.
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

// orphanPause is how long after a look for orphans that failed the next comes.
const orphanPause = 5 * time.Second

// takeOrphans takes the orphans of a name out, as what is not renewed any more.
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
			all.add(append(id[:], in[:]...), 0) // while it is there: its adopter may move it now //mutant:pg-orphan-that-was-moved
		}
	}
	s.claims.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	return s.drop(ctx, name, all, true)
}
