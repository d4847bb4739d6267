package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// inspector returns the store as an Inspector, or an error if it is none.
func (e *engine) inspector() (store.Inspector, error) {
	in, ok := e.store.(store.Inspector)
	if why, lacks := e.desc.Lacks[store.PromiseInspect]; lacks || !ok {
		return nil, fmt.Errorf("%w: it cannot list who holds: %s", store.ErrUnsupported, why)
	}
	return in, nil
}

// inspect calls each with the state of the name, or of all names if name is empty.
// What cannot be read is in the error; inspect goes on with the rest.
func (e *engine) inspect(ctx context.Context, s *settings, name string, each func(*store.State) error) error {
	in, err := e.inspector()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { //mutant:looks-though-ended
		return err
	}
	if !e.enter() {
		return store.ErrClosed
	}
	defer e.work.Done()
	e.begin(s)
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	if name != "" {
		under, cancel = context.WithTimeout(under, longestCall)
		defer cancel()
	}
	defer context.AfterFunc(e.life, cancel)() //mutant:close-end-look
	var errs []error
	for st, err := range in.List(under, name) {
		if e.isClosing() {
			return store.ErrClosed
		}
		if err == nil {
			err = each(&st)
		}
		if err != nil {
			errs = append(errs, e.byCaller(ctx, err))
		}
	}
	return errors.Join(errs...)
}

// byCaller returns an error of the store, with that of the caller's context if that
// has ended.
func (e *engine) byCaller(ctx context.Context, err error) error {
	if ctx.Err() != nil && !store.Definite(err) {
		return fmt.Errorf("%w: %w", indeterminate(err), ctx.Err())
	}
	return indeterminate(err)
}

// List returns the state of each name that begins with the prefix, sorted by name,
// and the time at which it was read.
func (l *Locker) List(ctx context.Context, prefix string) ([]store.State, time.Time, error) {
	return l.list(ctx, "list", "", prefix)
}

// Look is List of one name. It returns no State if the name has no holder and no waiter.
func (l *Locker) Look(ctx context.Context, name string) ([]store.State, time.Time, error) {
	w := l.Write(name)
	w.verb = "look at"
	if err := w.check(); err != nil {
		return nil, time.Time{}, err
	}
	return l.list(ctx, "look at", name, name)
}

func (l *Locker) list(ctx context.Context, verb, name, prefix string) (all []store.State, at time.Time, err error) {
	if err := l.err; err != nil {
		return nil, at, err
	}
	err = l.e.inspect(ctx, l.s, name, func(st *store.State) error {
		if strings.HasPrefix(st.Name, prefix) { //mutant:list-all
			all = append(all, *st)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b store.State) int { return cmp.Compare(a.Name, b.Name) }) //mutant:list-unordered
	if err != nil {
		err = fmt.Errorf("%s %q on %s: %w", verb, prefix, l.e.desc.Store, err)
	}
	return all, time.Now(), err
}

// Break takes a hold away from its owner.
func (l *Locker) Break(ctx context.Context, b store.Break) error {
	w := l.Write(b.Name)
	w.verb = "break"
	if err := w.check(); err != nil {
		return err
	}
	in, err := l.e.inspector()
	if err != nil {
		return w.errorf(err)
	}
	if !l.e.enter() {
		return w.errorf(store.ErrClosed)
	}
	defer l.e.work.Done()
	l.e.begin(l.s)
	under, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	defer context.AfterFunc(l.e.life, cancel)()
	if err := in.BreakHold(under, b); err != nil {
		return w.errorf(l.e.byCaller(ctx, err))
	}
	return nil
}

// Held returns every lease of the engine that is held, sorted by name.
func (l *Locker) Held() (all []*Lease) {
	s := &l.e.sched
	s.mu.Lock()
	holds := slices.Clone(s.holds)
	s.mu.Unlock()
	for _, h := range holds {
		h.mu.Lock()
		for lease := h.leases; lease != nil; lease = lease.next {
			all = append(all, lease)
		}
		h.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b *Lease) int { return cmp.Compare(a.Name(), b.Name()) })
	return slices.DeleteFunc(all, func(l *Lease) bool { return !l.Valid() }) //mutant:held-though-over
}

// Renew renews all leases now, so that they last for ttl from the sending of the request.
func (all *Leases) Renew(ctx context.Context, ttl time.Duration) error {
	return errors.Join(renewTogether(ctx, ttl, all.parts...)...)
}
