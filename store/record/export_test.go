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
	server.Lapse(s.Sessions()...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
}

// LapseShortForTest ends the session of a TTL, and has the store find out.
func (s *Store) LapseShortForTest(server lapser, ttl time.Duration) {
	if sess := s.sessions.Begun(ttl); sess != nil {
		server.Lapse(sess.ID)
		sess.Wait(context.Background(), sess.Renew())
	}
}
