// Package memstore keeps locks in this process's memory: for goroutines of one
// process, and for the tests of code that uses holdfast.
//
// # Stored form
//
// A map from name to [queue.Queue]. It has only names with holders or waiters: for all
// idle names one number is kept, the newest token.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store]: order, minimum hold,
// lock delay, slots, upgrades, strictly increasing tokens, in blocks too. A TTL is from
// 10 ms to 365 days. Time is [time.Now], so in a [testing/synctest] bubble it is the
// bubble's. Nothing is shared with another process and nothing survives this one.
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
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A Store keeps locks in memory. Two lockers exclude each other only if they
// were given the same Store. Its methods are safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	names map[string]*named
	most  int    // names at a time since the map was made
	sweep int    // how many names there may be before expired ones are removed
	free  *named // that of an idle name, for reuse
	last  int64  // the newest token of all idle names
	now   func() queue.Time
	fail  func(op, name string) error
	sinks map[store.Process]func(store.Notification)
	looks map[string]map[*func()]bool // by name: the callbacks of WatchName
}

// named is the queue of a name in use, with room for the one entry that most
// names have.
type named struct {
	queue.Queue
	one [1]queue.Entry
}

var _ interface {
	store.Store
	store.Unwatcher
	store.NameWatcher
	store.Poller
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns an empty Store.
func New() *Store {
	// The clock is monotonic and counts from here: a step of the wall clock
	// ends no hold.
	start := time.Now()
	return newAt(func() queue.Time {
		now := time.Now()
		return queue.Time{Clock: now.Sub(start).Microseconds(), Wall: now.UnixMicro()}
	})
}

func newAt(now func() queue.Time) *Store {
	return &Store{
		names: map[string]*named{}, sweep: minSweep, now: now,
		sinks: map[store.Process]func(store.Notification){}, looks: map[string]map[*func()]bool{},
	}
}

// minSweep is the least number of names for which a sweep, or a smaller map,
// pays.
const minSweep = 1024

// Fail makes every later operation for which f returns an error fail with that error
// before anything is done, as an unreachable server would; a nil f ends that. op is
// "ask", "poll", "renew", "change", "release", "watch", "list" or "break". name is empty
// for a list of all names, and "watch" is [Store.WatchName] alone: it never makes Watch
// fail. f is called with the store locked and must not use it. Fail is for tests of a
// caller whose store is down: an error that matches none of the Err values of package
// [github.com/holdfast-go/holdfast/store] counts as an indeterminate outcome, so that a
// claim fails with ErrUnavailable.
func (s *Store) Fail(f func(op, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Break breaks every hold of the name at once and grants the name to the next waiter. The
// owners learn of the loss when they next renew, within a third of their TTL. It is for
// tests of what a job does when its lease is lost.
func (s *Store) Break(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(name, func(now queue.Time, q *queue.Queue) queue.Change {
		var all queue.Change
		q.Forgets = true // the reason is not kept
		defer func() { q.Forgets = false }()
		for _, e := range q.State(now, name).Entries {
			if e.Granted && !e.Freed {
				b := store.Break{Name: name, ID: e.ID, Token: e.Token, Now: true}
				change, _ := q.Break(now, &b) // it was there a moment ago, under the same lock
				all.Wrote, all.Woken = true, append(all.Woken, change.Woken...)
			}
		}
		return all
	})
}

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	err = s.do(ctx, "ask", c.Name, func(now queue.Time, q *queue.Queue) (change queue.Change, err error) {
		a, change, err = q.Ask(now, c.Name, &c) //mutant:ask-wakes-nobody
		return change, err
	})
	return a, err
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.away(ctx, "poll", c.Name); err != nil {
		return store.Answer{}, err
	}
	n := s.names[c.Name]
	if n == nil {
		n = &named{Queue: queue.Queue{Last: s.last}}
	}
	return n.Poll(s.now(), c.Name, &c)
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	for i := range holds {
		h := &holds[i] //mutant:renewals-in-their-order
		err := s.do(ctx, "renew", h.Name, func(now queue.Time, q *queue.Queue) (change queue.Change, err error) {
			out[i], change = q.Renew(now, h) //mutant:renewal-wakes-nobody
			return change, nil
		})
		if err != nil {
			out[i].Err = err //mutant:batch-ends-first-loss
		}
	}
	return out
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	if err := store.CheckChange(&h, turn, weight); err != nil { //mutant:change-without-check
		return a, err
	}
	err = s.do(ctx, "change", h.Name, func(now queue.Time, q *queue.Queue) (change queue.Change, err error) {
		a, change, err = q.Change(now, &h, turn, weight)
		return change, err
	})
	return a, err
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	return s.do(ctx, "release", h.Name, func(now queue.Time, q *queue.Queue) (queue.Change, error) {
		return q.Release(now, &h)
	})
}

// ReleaseAll implements [store.Store].
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	for i, h := range holds { //mutant:release-all-more-thousand
		out[i] = s.Release(ctx, h) //mutant:release-all-stops-first
	}
	return out
}

// Watch implements [store.Watcher].
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.sinks[p] = sink
	return nil
}

// Unwatch implements [store.Unwatcher].
func (s *Store) Unwatch(p store.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sinks, p)
}

// WatchName implements [store.NameWatcher].
func (s *Store) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.away(ctx, "watch", name); err != nil {
		return nil, err
	}
	if s.looks[name] == nil {
		s.looks[name] = map[*func()]bool{}
	}
	s.looks[name][&changed] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.looks[name], &changed); len(s.looks[name]) == 0 { //mutant:watched-for-ever
			delete(s.looks, name)
		}
	}, nil
}

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		states, err := s.states(ctx, name)
		if err != nil {
			yield(store.State{Name: name}, err)
			return
		}
		for _, st := range states {
			if !yield(st, nil) {
				return
			}
		}
	}
}

func (s *Store) states(ctx context.Context, name string) (all []store.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.away(ctx, "list", name); err != nil {
		return nil, err
	}
	now, names := s.now(), s.names
	if name != "" {
		names = map[string]*named{}
		if n := s.names[name]; n != nil {
			names[name] = n
		}
	}
	for name, n := range names {
		if st := n.State(now, name); len(st.Entries) > 0 {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b store.State) int { return strings.Compare(a.Name, b.Name) })
	return all, nil //mutant:list-whole
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	return s.do(ctx, "break", b.Name, func(now queue.Time, q *queue.Queue) (queue.Change, error) {
		return q.Break(now, &b)
	})
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

// Check implements [store.Checker].
func (s *Store) Check(context.Context) []store.Finding { //mutant:check-tells-nothing
	return []store.Finding{{About: "memory", Found: "of this process: it excludes no other"}} //mutant:check-tell-looked
}

// Close implements [store.Store]. The names stay: other lockers may use them.
func (s *Store) Close() error { return nil }

// away returns why the store cannot be reached, or nil.
func (s *Store) away(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil { //mutant:ended-context-ignored
		return err //mutant:ended-context-loss
	}
	if s.fail != nil {
		return s.fail(op, name)
	}
	return nil
}

// do runs one operation.
func (s *Store) do(ctx context.Context, op, name string, f func(queue.Time, *queue.Queue) (queue.Change, error)) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.away(ctx, op, name); err != nil {
		return err
	}
	s.change(name, func(now queue.Time, q *queue.Queue) (change queue.Change) {
		change, err = f(now, q) //mutant:lost-wakes-nobody
		return change
	})
	return err
}

// change runs f on the queue of the name, forgets an unused name, and notifies
// the claims that f granted.
func (s *Store) change(name string, f func(queue.Time, *queue.Queue) queue.Change) { //mutant:names-folded-case
	n := s.names[name]
	if n == nil {
		if len(s.names) >= s.sweep {
			s.forget()
		}
		if n = s.free; n == nil {
			n = new(named)
		}
		s.free = nil
		n.Last, n.Entries = s.last, n.one[:0] //mutant:token-starts-again-idle
		s.names[name] = n
		s.most = max(s.most, len(s.names))
	}
	change := f(s.now(), &n.Queue)
	if len(n.Entries) == 0 {
		s.last = max(s.last, n.Last)
		delete(s.names, name)
		s.free = n
		if s.most > minSweep && len(s.names) < s.most/8 {
			s.shrink()
		}
	}
	s.wake(name, change)
}

// forget drops the names whose entries have all expired, which no operation has noticed
// since. It is called when there are twice as many names as after the last time. If a
// name has an entry that has not expired, its expired ones stay too: an operation with
// the id of one is answered "lost".
func (s *Store) forget() {
	now := s.now()
	for name, n := range s.names {
		if len(n.State(now, name).Entries) > 0 {
			continue
		}
		s.last = max(s.last, n.Last)
		delete(s.names, name)
	}
	s.sweep = max(minSweep, 2*len(s.names))
}

// shrink makes a new map, as a map never gives memory back.
func (s *Store) shrink() {
	old := s.names
	s.names = make(map[string]*named, len(old))
	maps.Copy(s.names, old)
	s.most = len(s.names)
}

// wake delivers the notifications of a change of the name, to waiters and to observers.
func (s *Store) wake(name string, change queue.Change) {
	if len(s.looks) > 0 && change.Wrote {
		for changed := range s.looks[name] { //mutant:watches-nobody
			(*changed)()
		}
	}
	for _, h := range change.Woken { //mutant:wakes-most
		if sink := s.sinks[h.ID.Process()]; sink != nil { //mutant:wakes-without-token
			sink(h)
		}
	}
}
