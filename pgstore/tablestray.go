package pgstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A stray is an entry in a session of this process of which it knows nothing more. A replica that is promoted may not have received that it
// was given back, though it has the session, and so may a backup. Or another process has begun to adopt a hold of this one, so that it has
// another id, and has died before it had moved it. No session's end would take it out, for as long as this process holds anything.

// strayPause is for how long at most a process waits before it looks for strays: as a rule many have lost the server at one time.
const strayPause = 2 * time.Second

// met notes since when the server has run that answered. Another one than before, or one that was started again, may have forgotten what
// its predecessor had answered.
func (s *Store) met(started int64) {
	if was := s.server.Swap(started); was == 0 || was == started {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.claims.looksBy(store.Now().Add(rand.N(strayPause))) //mutant:pg-strays-are-looked-for
	s.poke()
}

// looksBy has strays looked for at an instant, or before.
func (c *claims) looksBy(at store.Instant) {
	if c.strays == 0 || at < c.strays {
		c.strays = at
	}
}

// dueStrays begins to look for strays if it is time to. claims.mu is held.
func (s *Store) dueStrays(now store.Instant) {
	c := &s.claims
	if c.strays == 0 || c.strays > now || c.looking {
		return
	}
	c.strays, c.looking = 0, true
	c.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		err := s.takeStrays(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.looking = false
		if c.looks++; err == nil {
			c.looks = 0
		} else {
			c.strays = store.Now().Add(strayPause << min(c.looks, 7))
		}
	})
}

// takeStrays takes the strays out, as what is not renewed any more.
func (s *Store) takeStrays(ctx context.Context) error {
	var in array
	for _, id := range s.sessions.IDs() {
		in.bytes(string(id[:]))
	}
	of := map[string]over{}
	err := s.run(ctx, s.do.strays, []any{in.text()}, func() { clear(of) }, func(scan func(...any) error) error {
		var name, id []byte
		if err := scan(&name, &id); err != nil || len(id) != len(store.ID{}) {
			return err
		}
		all := of[string(name)]
		all.add(id, 0)
		of[string(name)] = all
		return nil
	})
	if err != nil && !isNoTable(err) {
		return err
	}
	s.claims.mu.Lock()
	for name, all := range of {
		for id := range all {
			if s.claims.of[store.ID([]byte(id))] != nil { //mutant:pg-what-is-known-is-no-stray
				delete(all, id)
			}
		}
		if len(all) == 0 {
			delete(of, name)
		}
	}
	s.claims.mu.Unlock()
	for name, all := range of {
		if err := s.drop(ctx, name, all); err != nil {
			return err
		}
	}
	return nil
}
