package record

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/session"
)

// A lapser ends sessions, as a server does with those that it has not heard of.
type lapser interface {
	Lapse(ids ...session.ID)
}

// LapseForTest ends the sessions of the store, and returns when what they kept is gone. The
// store has found out by then.
func (s *Store) LapseForTest(t testing.TB, server lapser) {
	t.Helper()
	s.mu.Lock()
	names := map[string]bool{}
	for _, m := range s.claims {
		names[m.name] = true
	}
	s.mu.Unlock()
	ids := s.sessions.IDs()
	server.Lapse(ids...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	for _, id := range ids {
		if sess := s.sessions.Own(id); sess != nil {
			sess.Wait(ctx, sess.Renew())
		}
	}
	for name := range names {
		if err := s.settleName(ctx, name); err != nil {
			t.Fatalf("settle %q: %v", name, err)
		}
	}
}
