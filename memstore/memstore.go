// Package memstore keeps locks in this process's memory: for goroutines of one
// process, and for the tests of code that uses holdfast.
//
// # Stored form
//
// A map from name to [queue.Queue]. A name that nobody holds or waits for is
// not in it: of all idle names one number is kept, the newest token.
//
// # Guarantees
//
// The whole rule: order, minimum hold, lock delay, slots, strictly increasing
// tokens. Time is [time.Now], so in a testing/synctest bubble it is the
// bubble's. Nothing is shared with another process and nothing survives this
// one.
//
// # Requirements
//
// None.
//
// # Rights
//
// None.
package memstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A Store keeps locks in memory. Two lockers exclude each other only if they
// were given the same Store. Its methods are safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	names map[string]*queue.Queue
	free  *queue.Queue // of an idle name, to be used again
	last  int64        // the newest token of all idle names
	start time.Time
	fail  func(op, name string) error
	sinks map[store.Process]func(store.Hint)
}

var _ interface {
	store.Store
	store.Watcher
	store.Looker
	store.Inspector
} = (*Store)(nil)

// New returns an empty Store.
func New() *Store {
	return &Store{names: map[string]*queue.Queue{}, start: time.Now(), sinks: map[store.Process]func(store.Hint){}}
}

// Fail makes every later operation for which f returns an error fail with that
// error before anything is done, as an unreachable server would; nil ends it.
// op is "ask", "renew" or "release". f is called with the store locked and must
// not use it. It is for tests of what a caller does when its store is away.
func (s *Store) Fail(f func(op, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Break breaks every hold of the name at once and lets the next in: the owners
// are told of the loss when they next renew, within a third of their TTL. It
// is for tests of what a job does when its lease is lost.
func (s *Store) Break(name string) {
	s.do(name, func(now queue.Time, q *queue.Queue) queue.Change {
		var all queue.Change
		for _, e := range q.State(now, name).Entries {
			if e.Granted {
				b := store.Break{Name: name, ID: e.ID, Token: e.Token, Reason: "memstore.Break", Now: true}
				change, _ := q.Break(now, &b) // it was there a moment ago, under the same lock
				all.Woken = append(all.Woken, change.Woken...)
			}
		}
		return all
	})
}

// Ask implements [store.Store].
func (s *Store) Ask(_ context.Context, c store.Claim) (a store.Answer, err error) {
	if err := s.failing("ask", c.Name); err != nil {
		return a, err
	}
	s.do(c.Name, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		a, change, err = q.Ask(now, c.Name, &c)
		return change
	})
	return a, err
}

// Look implements [store.Looker].
func (s *Store) Look(_ context.Context, c store.Claim) (store.Answer, error) {
	if err := s.failing("look", c.Name); err != nil {
		return store.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.names[c.Name]
	if q == nil {
		q = &queue.Queue{Last: s.last}
	}
	return q.Look(s.now(), c.Name, &c)
}

// Renew implements [store.Store].
func (s *Store) Renew(_ context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	for i, h := range holds {
		out[i].TTL = h.TTL
		if out[i].Err = s.failing("renew", h.Name); out[i].Err != nil {
			continue
		}
		s.do(h.Name, func(now queue.Time, q *queue.Queue) (change queue.Change) {
			change, out[i].Err = q.Renew(now, &h)
			return change
		})
	}
	return out
}

// Release implements [store.Store].
func (s *Store) Release(_ context.Context, h store.Hold) (err error) {
	if err := s.failing("release", h.Name); err != nil {
		return err
	}
	s.do(h.Name, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		change, err = q.Release(now, h.Name, h.ID, h.Token)
		return change
	})
	return err
}

// Watch implements [store.Watcher].
func (s *Store) Watch(_ context.Context, p store.Process, sink func(store.Hint)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks[p] = sink
	return nil
}

// List implements [store.Inspector].
func (s *Store) List(_ context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		for _, st := range s.states(name) {
			if !yield(st, nil) {
				return
			}
		}
	}
}

func (s *Store) states(name string) (all []store.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.names)) {
		if name == "" || n == name {
			if st := s.names[n].State(s.now(), n); len(st.Entries) > 0 {
				all = append(all, st)
			}
		}
	}
	return all
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(_ context.Context, b store.Break) (err error) {
	s.do(b.Name, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		change, err = q.Break(now, &b)
		return change
	})
	return err
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  fmt.Sprintf("memory of this process (%p)", s),
		MinTTL: 10 * time.Millisecond, MaxTTL: 365 * 24 * time.Hour, Tick: time.Microsecond,
		InProcess: true,
		Crash:     store.CrashNever,
		Loses:     "everything ends with the process",
	}
}

// Close implements [store.Store]. The names stay: other lockers may use them.
func (s *Store) Close() error { return nil }

func (s *Store) failing(op, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		return nil
	}
	return s.fail(op, name)
}

// do runs f on the queue of the name, forgets a name that nobody uses any
// more, and wakes whom f granted.
func (s *Store) do(name string, f func(queue.Time, *queue.Queue) queue.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.names[name]
	if q == nil {
		if q = s.free; q == nil {
			q = new(queue.Queue)
		}
		s.free = nil
		q.Last = s.last
		s.names[name] = q
	}
	change := f(s.now(), q)
	if len(q.Entries) == 0 {
		s.last = max(s.last, q.Last)
		delete(s.names, name)
		s.free = q
	}
	for _, h := range change.Woken {
		if sink := s.sinks[h.ID.Process()]; sink != nil {
			sink(h)
		}
	}
}

// now counts from the store's start by the monotonic clock: a step of the wall
// clock ends no hold.
func (s *Store) now() queue.Time {
	now := time.Now()
	return queue.Time{Clock: now.Sub(s.start).Microseconds(), Wall: now.UnixMicro()}
}
