package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A Claimer is one of the names that [Locker.All] takes together: a [*Mutex],
// or what [RWMutex.R], [RWMutex.W] and [Semaphore.N] return.
type Claimer interface{ claim() want }

func (m *Mutex) claim() want {
	if m == nil {
		return want{}
	}
	return m.w
}

func (w *want) claim() want { return *w }

// R is the read lock as a claim of [Locker.All].
func (m *RWMutex) R() Claimer { return &m.read }

// W is the write lock as a claim of [Locker.All].
func (m *RWMutex) W() Claimer { return &m.write }

// N is k slots as a claim of [Locker.All].
func (s *Semaphore) N(k int) Claimer { return s.of(k) }

// A Several is several names that are taken together or not at all. It keeps no
// state of its own and is safe for concurrent use; the grant belongs to the
// [Leases].
type Several struct {
	l     *Locker
	wants []want // one a name, in the order in which they are taken
	err   error  // a mistake in the claims
}

// All returns the names of the claims, to be taken together. They are taken in
// the order of their bytes, whatever the order in which they are given, so that
// two who want some of the same names never wait for each other. Of a name that
// is there twice a write lock covers a read lock, and slots add up.
//
// The claims are those of this Locker's store, and are taken with this Locker's
// options, of which Wait bounds all the waiting together. No claims, a nil
// among them, or one of another store is an ErrInvalid of the first call; a
// name that is there both as a lock and as a semaphore, or as semaphores of two
// sizes, is its ErrMismatch.
func (l *Locker) All(claims ...Claimer) *Several {
	s := &Several{l: l}
	s.wants, s.err = l.merge(claims)
	return s
}

// merge makes of the claims one want a name, in order.
func (l *Locker) merge(claims []Claimer) ([]want, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("lock several names on %s: %w: %s", l.e.desc.Store, ErrInvalid, fmt.Sprintf(format, args...))
	}
	if l.err != nil {
		return nil, l.err
	}
	if len(claims) == 0 {
		return nil, bad("there are no claims")
	}
	by := l.waiting()
	byName := map[string]*want{}
	for i, c := range claims {
		if c == nil || c.claim().l == nil {
			return nil, bad("claim %d of %d is nil", i+1, len(claims))
		}
		w := c.claim()
		if w.l.e != l.e {
			return nil, bad("%q is on another locker's store, %s", w.name, w.l.e.desc.Store)
		}
		w.l = by
		if err := w.check(); err != nil {
			return nil, err
		}
		have := byName[w.name]
		switch {
		case have == nil:
			byName[w.name] = &w
		case have.limit != w.limit:
			return nil, w.errorf(&store.MismatchError{Have: have.limit, Want: w.limit})
		case w.limit != store.Full:
			have.weight += w.weight //mutant:slots-add-up
		case w.weight > have.weight: //mutant:read-covers-write
			*have = w
		}
	}
	wants := make([]want, 0, len(byName))
	for _, w := range byName {
		if err := w.check(); err != nil { // slots that add up to too many
			return nil, err
		}
		if w.part = len(byName) > 1; !w.part { //mutant:name-without-maxhold
			w.l = l
		}
		wants = append(wants, *w)
	}
	slices.SortFunc(wants, func(a, b want) int { return strings.Compare(a.name, b.name) }) //mutant:taken-given
	return wants, nil
}

// waiting is the Locker by which several names are taken one by one: MaxHold and
// NoRenew count once all are there.
func (l *Locker) waiting() *Locker {
	s := *l.s
	s.MaxHold, s.NoRenew = 0, false //mutant:maxhold-counts-while-waits
	return &Locker{e: l.e, o: l.o, s: &s}
}

// Lock waits until all names are ours: for each in turn, while it holds those
// before it. ctx bounds the waiting only. If it fails nothing is held: what it
// had is given back, with no minimum hold, and nobody but the log hears of it.
//
// A name that sorts before one whose lease ctx comes from is only tried, as two
// who do the reverse would wait for each other: refused is ErrDeadlock then. A
// name that was lost while it waited for the others is ErrLost. The other
// errors are those of [Mutex.Lock].
func (s *Several) Lock(ctx context.Context) (*Leases, error) { return s.take(ctx, false) }

// TryLock takes all names if all are free, and never waits for another. If one
// is refused the error is its *HeldError, and nothing is held.
func (s *Several) TryLock(ctx context.Context) (*Leases, error) { return s.take(ctx, true) }

// Do waits as Lock does, runs fn, and gives the names back. The context of fn
// ends with ctx or with the first lease that ends, and [LeaseOf] finds the
// leases in it. For its error see [Mutex.Do].
func (s *Several) Do(ctx context.Context, fn func(context.Context) error) error {
	all, err := s.Lock(ctx)
	if err != nil {
		return notRun(err)
	}
	return all.run(ctx, fn)
}

// TryDo is Do if all names are free; else it returns false and no error.
func (s *Several) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	all, err := s.TryLock(ctx)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, notRun(err)
	}
	return true, all.run(ctx, fn)
}

func (s *Several) take(ctx context.Context, try bool) (*Leases, error) {
	if s.err != nil {
		return nil, s.err
	}
	e := s.l.e
	if !e.enter() {
		return nil, s.wants[0].errorf(ErrClosed)
	}
	defer e.work.Done()
	if d := s.l.s.Wait; d > 0 && !try { //mutant:wait-all
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	t := &taking{e: e, s: s.l.s, waiting: s.wants[0].l.s, before: lastHeld(ctx, e), parts: make([]*Lease, len(s.wants))}
	if err := t.all(ctx, s.wants, try); err != nil {
		t.undo(ctx) //mutant:had-kept
		return nil, err
	}
	if err := t.finish(ctx); err != nil {
		return nil, err
	}
	return &Leases{parts: t.parts}, nil
}

// lastHeld is the last in order of the names whose leases ctx comes from.
func lastHeld(ctx context.Context, e *engine) (name string) {
	ls := chainOf(ctx)
	for ; ls != nil; ls = ls.outer {
		if l := ls.lease; l.hold.e == e && l.Valid() { //mutant:name-before-released-only
			name = max(name, l.Name())
		}
	}
	return name
}
