package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// lookTime bounds every use of a store by a command that takes no lock: some drivers ignore their
// contexts, and some wait for a minute.
var lookTime = 4 * time.Second

// openWithin opens the store, for at most d after from: some stores look for their servers then.
// 0: no bound.
func (c choice) openWithin(d time.Duration, from time.Time) (store.Store, error) {
	if d == 0 {
		return c.open()
	}
	type opened struct {
		s   store.Store
		err error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := c.open()
		done <- opened{s, err}
	}()
	select {
	case o := <-done:
		return o.s, o.err
	case <-time.After(time.Until(from.Add(d))):
		return nil, say(holdfast.ErrUnavailable, "", c.kind(), d)
	}
}

// An inspected store is one that is opened to read its state.
type inspected struct {
	store.Store
	store.Inspector
	locks *holdfast.Locker // on the store
	where string           // the store, for people
}

// inspector opens the chosen store to read its state. The choice is that of p.choose, or of
// choose for commands that may read any store.
func (p *program) inspector(chosen choice, err error) (*inspected, error) {
	if err != nil {
		return nil, err
	}
	s, err := chosen.openWithin(lookTime, time.Now())
	if err != nil {
		return nil, err
	}
	in, ok := s.(store.Inspector)
	d := s.Describe()
	if !ok {
		s.Close()
		why, _, _ := strings.Cut(d.Lacks[store.PromiseInspect], ";")
		return nil, &message{about("", d.Store, "cannot be looked into: "+why), holdfast.ErrUnsupported}
	}
	locks, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Close()
		return nil, err
	}
	return &inspected{s, in, locks, d.Store}, nil
}

// done closes the store.
func (in *inspected) done() { closeSoon(in.locks) }

// closeSoon closes a store, or a Locker on one, and does not wait long for one that is silent.
func closeSoon(c io.Closer) {
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(200 * time.Millisecond):
	}
}

// errSilent is the error of a store that did not answer in time.
var errSilent = fmt.Errorf("%w: %w", holdfast.ErrUnavailable, context.DeadlineExceeded)

// all reads the entries of the name, or of all names if it is empty, for at most d. It returns
// what it could read, and the errors of the rest.
func (in *inspected) all(ctx context.Context, name string, d time.Duration) ([]store.State, []error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var states []store.State
	var errs []error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for state, err := range in.List(ctx, name) {
			mu.Lock()
			if err != nil {
				errs = append(errs, err)
			} else {
				states = append(states, state)
			}
			mu.Unlock()
		}
	}()
	over := ctx.Done() //mutant:cmd-look-is-bounded
	silent := false
	select {
	case <-done:
	case <-over:
		silent = true
	}
	mu.Lock()
	defer mu.Unlock()
	found, wrong := slices.Clone(states), slices.Clone(errs)
	late := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	if silent && !slices.ContainsFunc(wrong, late) {
		wrong = append(wrong, errSilent)
	}
	for i, err := range wrong {
		wrong[i] = say(err, name, in.where, min(d, time.Since(begin)))
	}
	return found, wrong
}

// one reads the entries of one name, for at most d; the state is empty if nobody uses it.
func (in *inspected) one(ctx context.Context, name string, d time.Duration) (state store.State, err error) {
	states, errs := in.all(ctx, name, d)
	if len(errs) > 0 {
		return state, errs[0]
	}
	if len(states) > 0 {
		state = states[0]
	}
	return state, nil
}

// change runs do on the store, for at most lookTime.
func (in *inspected) change(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errSilent
	}
}
