package record

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// longest is the timeout of one request to the server: a hung one is never answered. All operations are safe to
// repeat. Tests replace it.
var longest = 4 * time.Second

// A Store is a [store.Store] on a Backend: also a Poller, an Inspector and a Checker.
// Its methods are safe for concurrent use.
type Store struct {
	b        Backend
	traits   Traits
	d        store.Description
	bounds   store.Bounds
	sessions *session.Set
	records  *records

	ctx   context.Context // for all work that outlives a call, canceled by Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{} // work may be due

	mu       sync.Mutex
	settling bool                     // due removes no claims meanwhile
	claims   map[store.ID]*localClaim // of this process
	process  store.Process            // whose notifications are delivered
	sink     func(store.Notification) // nil: Watch was not called
	sweepAt  store.Instant            // the next sweep
}

// A WatchStore is a Store that is also a [store.Watcher], for backends that notify.
type WatchStore struct{ *Store }

var _ interface {
	store.Store
	store.Poller
	store.Inspector
	store.Checker
	store.Watcher
	store.NameWatcher
} = WatchStore{}

// New returns a Store on the backend. Closing the Store closes the backend. New does no I/O.
func New(b Backend) *Store {
	s := &Store{b: b, traits: b.Traits(), wake: make(chan struct{}, 1), claims: map[store.ID]*localClaim{}}
	s.d = describe(b)
	s.bounds = store.Bounds{Min: s.d.MinTTL, Max: s.d.MaxTTL, On: s.d.Store}
	s.sessions = session.NewSet(b, s.poke)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.records = &records{
		b: b, traits: s.traits, reportsEnd: b.SessionTraits().ReportsEnd, sessions: s.sessions, ctx: s.ctx,
		elsewhere: s.elsewhere, deliver: s.deliver, names: map[string]*name{},
	}
	s.sweepAt = store.Now().Add(sweepEvery)
	if rand.N(sweepOdds) == 0 {
		s.sweepAt = store.Now().Add(time.Second)
	}
	s.tasks.Go(func() { session.Tend(s.ctx, s.wake, 10*time.Millisecond, s.due) })
	return s
}

// describe returns the backend's description, with what follows from its traits.
func describe(b Backend) store.Description {
	d, t, st := b.Describe(), b.Traits(), b.SessionTraits()
	d.MinTTL, d.MaxTTL, d.Tick = st.MinTTL, st.MaxTTL, st.Tick
	d.Late = 2 * t.Age // lengthen adds one Age; the server's time may err by another, if it is ahead at first and behind at the end
	lacks := map[store.Promise]string{
		store.PromisePositionTTL: "a position is kept until the session of its process ends, which is after at most ten seconds",
		store.PromiseExpiry:      "the claims of one process and TTL have one session, which is renewed for all of them",
	}
	if !t.Clock {
		lacks[store.PromiseLockDelay] = "the server does not tell its clock"
	}
	maps.Copy(lacks, d.Lacks)
	d.Lacks = lacks
	return d
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	d := s.d
	d.Lacks = maps.Clone(d.Lacks)
	return d
}

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) []store.Finding { return s.b.Check(ctx) }

// Sessions returns the IDs of this process's sessions that may be alive, except those of detached holds. It does no
// I/O. It is for tests, which end the sessions on the server and then call [Store.Settle].
func (s *Store) Sessions() []session.ID { return s.sessions.IDs() }

// Settle renews all sessions, so that the store learns which of them have ended, and then removes the entries of
// those, as if all had ended at the same moment.
func (s *Store) Settle(ctx context.Context) error {
	s.mu.Lock()
	s.settling = true
	names := map[string]bool{}
	for _, m := range s.claims {
		names[m.name] = true
	}
	s.mu.Unlock()
	for _, id := range s.sessions.IDs() {
		if sess := s.sessions.Own(id); sess != nil {
			sess.Wait(ctx, sess.Renew()) // an earlier renewal may be under way, and done before the session's end //mutant:record-settles-by-what-was-sent
			for st := sess.Wait(ctx, sess.Renew()); st.Failing && !st.Over && ctx.Err() == nil; st = sess.Wait(ctx, sess.Renew()) {
			}
		}
	}
	s.mu.Lock()
	s.settling = false
	s.mu.Unlock()
	for name := range names {
		if err := s.records.settleName(ctx, name); err != nil {
			return fmt.Errorf("settle %q: %w", name, err)
		}
	}
	return nil
}

// closePatience bounds how long Close waits for the sessions to be ended.
const closePatience = 2 * time.Second

// Close implements [store.Store]. It ends the sessions, and with them all their entries.
func (s *Store) Close() error {
	s.records.mu.Lock()
	s.records.closed = true
	s.records.mu.Unlock()
	s.stop()
	s.tasks.Wait()
	s.records.tasks.Wait()
	s.records.crew.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	s.sessions.Close(ctx)
	return s.b.Close()
}

// poke makes due run soon. The caller may hold any lock.
func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
