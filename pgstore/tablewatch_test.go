package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/store"
)

// Each notification wakes all who listen.
func TestAListenerAtTheServerNeedsNoTrial(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	meddle(s, func(statement string, _ []any) error {
		if strings.Contains(statement, "pg_notify($1") {
			return errCut
		}
		return nil
	})
	if err := s.Watch(t.Context(), me, func(store.Notification) {}); err != nil {
		t.Error(err)
	}
}

// slowly is a db that connects to nothing until it may.
type slowly struct {
	db
	may     chan struct{}
	configs atomic.Int64
	fails   int64 // so many first connections fail
}

func (s *slowly) config(ctx context.Context) (*pgx.ConnConfig, error) {
	n := s.configs.Add(1)
	<-s.may
	if n <= s.fails {
		return nil, errCut
	}
	return s.db.config(ctx)
}

// When many connect at once a connection takes long. Giving it up and starting again would take longer still.
func TestAListenThatTakesLongIsWaitedForByTheNext(t *testing.T) {
	t.Parallel()
	for _, fails := range []int64{0, 1} {
		s := newShared(t)
		slow := &slowly{db: s.db, may: make(chan struct{}), fails: fails}
		s.db = slow
		may := sync.OnceFunc(func() { close(slow.may) })
		defer may()
		soon, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Watch(soon, me, func(store.Notification) {}); !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		may()
		if fails > 0 { // before the next ask: a failure then says nothing of now
			until(t, "the first Watch has failed", func() bool {
				s.inbox.mu.Lock()
				defer s.inbox.mu.Unlock()
				return !s.inbox.keeps
			})
		}
		if err := s.Watch(t.Context(), me, func(store.Notification) {}); err != nil || slow.configs.Load() != 1+fails {
			t.Errorf("got %v, with %d connections", err, slow.configs.Load())
		}
	}
}

func TestANotificationIsReadAsItIsSent(t *testing.T) {
	id := me.NewID()
	for payload, want := range map[string]store.Notification{
		"17 1 " + id.String() + " 612062":   {Name: "a b", ID: id, Token: 17, N: 1},
		"17 64 " + id.String() + " 61":      {Name: "a", ID: id, Token: 17, N: 64},
		"0 0 " + id.String() + " 61":        {Name: "a", ID: id},
		"echo":                              {},
		"17 " + id.String() + " 61":         {},
		"x 1 " + id.String() + " 61":        {},
		"17 1 " + id.String()[1:] + " 61":   {},
		"17 1 " + id.String() + " 6":        {},
		"17 1 " + id.String() + " 61 again": {},
	} {
		if h, ok := notification(payload); h != want && ok || ok != (want != store.Notification{}) {
			t.Errorf("%q: got %+v, %v, want %+v", payload, h, ok, want)
		}
	}
}
