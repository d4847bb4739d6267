package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A Several is a claim of several names, which is granted as a whole or not at all.
type Several struct {
	l       *Locker
	targets []Target // one per name, in the order in which they are acquired
	err     error    // a mistake in the claims
}

// All merges the claims into one, to be acquired with this Locker. Take returns mistakes
// in them, such as a zero Target.
func (l *Locker) All(claims []Target) Several {
	s := Several{l: l}
	s.targets, s.err = l.merge(claims)
	return s
}

// merge makes one target per name of the claims, in order.
func (l *Locker) merge(claims []Target) ([]Target, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("lock several names on %s: %w: %s", l.e.desc.Store, store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if l.err != nil {
		return nil, l.err
	}
	if len(claims) == 0 {
		return nil, bad("there are no claims")
	}
	by := l.waiting()
	byName := map[string]*Target{}
	for i, w := range claims {
		if w.l == nil {
			return nil, bad("claim %d of %d is nil", i+1, len(claims))
		}
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
	targets := make([]Target, 0, len(byName))
	for _, w := range byName {
		if err := w.check(); err != nil { // slots that add up to too many
			return nil, err
		}
		if w.part = len(byName) > 1; !w.part { //mutant:name-without-maxhold
			w.l = l
		}
		targets = append(targets, *w)
	}
	slices.SortFunc(targets, func(a, b Target) int { return strings.Compare(a.name, b.name) }) //mutant:taken-given
	return targets, nil
}

// waiting returns the Locker with which several names are acquired one by one. It has no
// MaxHold and no NoRenew: they take effect when all names are granted.
func (l *Locker) waiting() *Locker {
	s := *l.s
	s.MaxHold, s.NoRenew = 0, false //mutant:maxhold-counts-while-waits
	return &Locker{e: l.e, s: &s}
}

// Take waits until all names are granted, or only tries. See package holdfast.
func (s *Several) Take(ctx context.Context, try bool) (*Leases, error) {
	if s.err != nil {
		return nil, s.err
	}
	e := s.l.e
	if !e.enter() {
		return nil, s.targets[0].errorf(store.ErrClosed)
	}
	defer e.work.Done()
	if d := s.l.s.Wait; d > 0 && !try { //mutant:wait-all
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	t := &multiAcquire{e: e, s: s.l.s, waiting: s.targets[0].l.s, before: lastHeld(ctx, e), parts: make([]*Lease, len(s.targets))}
	if err := t.all(ctx, s.targets, try); err != nil {
		t.undo(ctx) //mutant:had-kept
		return nil, err
	}
	if err := t.finish(ctx); err != nil {
		return nil, err
	}
	return &Leases{parts: t.parts}, nil
}

// lastHeld returns the name that sorts last among the valid leases from which ctx is derived, or "".
func lastHeld(ctx context.Context, e *engine) (name string) {
	ls := chainOf(ctx)
	for ; ls != nil; ls = ls.outer {
		if l := ls.lease; l.hold.e == e && l.Valid() { //mutant:name-before-released-only
			name = max(name, l.Name())
		}
	}
	return name
}
