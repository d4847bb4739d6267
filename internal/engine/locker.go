package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A Locker is an engine with options. The Lockers of an engine share everything
// else. It is safe for concurrent use.
type Locker struct {
	e   *engine
	s   *settings // the options with the defaults, checked
	err error     // what is wrong with s
}

// Open starts an engine on the store. The engine owns the store from now on. The error
// is ErrInvalid if the store has no deadlines and cannot report losses. refused makes
// the error of each refused claim, so that package holdfast can have its own error type.
func Open(s store.Store, refused func(Refusal) HeldError) (*Locker, error) {
	e, err := newEngine(s, refused)
	if err != nil {
		return nil, err
	}
	return &Locker{e: e}, nil
}

// With returns a Locker of the same engine with the options. If they are invalid, its
// Err and each of its claims return the error.
func (l *Locker) With(o Options) *Locker {
	m := &Locker{e: l.e}
	m.s, m.err = o.settle(&l.e.desc)
	return m
}

// Err returns what is wrong with the options, or nil.
func (l *Locker) Err() error { return l.err }

// Close ends all waits, gives back all holds of the engine, and closes the store.
func (l *Locker) Close() error { return l.e.close() }

// Shutdown refuses new claims, waits until nothing is held and no Do runs, or ctx
// ends, and closes.
func (l *Locker) Shutdown(ctx context.Context) error { return l.e.shutdown(ctx) }

// Write is a claim of the whole of a name.
func (l *Locker) Write(name string) Target {
	return Target{l: l, name: name, limit: store.Full, weight: store.Full, verb: "lock"}
}

// Read is a claim to read.
func (l *Locker) Read(name string) Target {
	return Target{l: l, name: name, limit: store.Full, weight: 1, verb: "read-lock"}
}

// Upgradeable is a claim to read that can be upgraded.
func (l *Locker) Upgradeable(name string) Target {
	return Target{
		l: l, name: name, limit: store.Full, weight: store.Upgradeable, verb: "take an upgradeable read lock of",
	}
}

// Slots is a claim of a semaphore with n slots. Of sets how many of them it claims.
func (l *Locker) Slots(name string, n int) Target {
	return Target{l: l, name: name, limit: int64(n), verb: semaphoreVerb}
}

// Leader is a claim of the whole of a name, to lead its election.
func (l *Locker) Leader(name string) Target {
	return Target{l: l, name: name, limit: store.Full, weight: store.Full, verb: "lead", leads: true}
}

// Of is the claim of k slots.
func (w *Target) Of(k int) *Target {
	of := *w
	of.weight = int64(k)
	return &of
}

// Limit is the number of slots.
func (w *Target) Limit() int { return int(w.limit) }
