package pgstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A stray is an entry in a session of this process that it does not know: another process has begun to adopt a
// hold of this one, which gave it another id, and has died before it called this one and moved the hold. No
// session's end would remove it as long as this process keeps anything in that session. A process that finds its
// hold lost looks for such an entry.

// looksFor has strays of a name looked for at an instant, or before. claims.mu is held.
func (c *claims) looksFor(name string, at store.Instant) {
	if was, looks := c.strays[name]; !looks || at < was {
		if c.strays == nil {
			c.strays = map[string]store.Instant{}
		}
		c.strays[name] = at
	}
}

// dueStrays begins to look for the strays of some names that are due. claims.mu is held.
func (s *Store) dueStrays(now store.Instant) {
	c := &s.claims
	for name, at := range c.strays {
		if at > now || c.looking == renewers {
			continue
		}
		delete(c.strays, name)
		c.looking++
		c.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 4*time.Second)
			defer cancel()
			err := s.takeStrays(ctx, name)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.looking--; err != nil && !store.Definite(err) {
				c.looksFor(name, store.Now().Add(strayPause))
			}
			s.poke()
		})
	}
}

// strayPause is how long after a look for strays that failed the next comes.
const strayPause = 5 * time.Second

// takeStrays takes the strays of a name out, as what is not renewed any more.
func (s *Store) takeStrays(ctx context.Context, name string) error {
	f, err := s.look(ctx, name)
	if err != nil {
		return err
	}
	var all over
	s.claims.mu.Lock()
	for id, in := range f.in {
		if s.sessions.Own(in) != nil &&
			s.claims.of[id] == nil { //mutant:pg-what-is-known-is-no-stray
			all.add(append(id[:], in[:]...), 0) // while it is there: its adopter may move it now //mutant:pg-stray-that-was-moved
		}
	}
	s.claims.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	return s.drop(ctx, name, all, true)
}
