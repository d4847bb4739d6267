package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A ReleaseError is what a Do, or any function like it, returns when it has
// called fn and the lease did not end well: it was lost meanwhile, or it is
// unknown whether the name was given back. Calling fn again would be a second
// run.
//
// It matches what fn's error matches, and ErrLost if the lease was lost. It does not
// match the error of the release, above all not ErrUnavailable, on which a caller may
// retry: that error is in Lease.
type ReleaseError struct {
	Err   error // what fn returned; nil: it succeeded
	Lease error // what became of the lease: ErrLost, or ErrUnavailable, or another of the Err values
}

// Error says that fn has run, what it returned, and what became of the lease.
func (e *ReleaseError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("fn has run and returned nil, but: %v", e.Lease)
	}
	return fmt.Sprintf("fn has run: %v; also: %v", e.Err, e.Lease)
}

// Unwrap returns fn's error, which no longer matches ErrNotRun.
func (e *ReleaseError) Unwrap() error { return hasRun(e.Err) } //mutant:fn-of-fn-unclear

// Is makes it match ErrLost if the lease was lost.
func (e *ReleaseError) Is(target error) bool {
	return target == ErrLost && errors.Is(e.Lease, ErrLost) //mutant:release-error
}

// notRun makes the error of a claim also match ErrNotRun.
func notRun(err error) error { return &notRunError{err} }

type notRunError struct{ err error }

func (e *notRunError) Error() string { return e.err.Error() }

func (e *notRunError) Unwrap() []error { return []error{e.err, ErrNotRun} } //mutant:not-run

// hasRun returns fn's error. If that matches ErrNotRun, because fn called a Do
// itself, the result does not: fn has run.
func hasRun(err error) error {
	if errors.Is(err, ErrNotRun) {
		return &hasRunError{err}
	}
	return err
}

type hasRunError struct{ err error }

func (e *hasRunError) Error() string { return e.err.Error() }

func (e *hasRunError) Is(target error) bool { return target != ErrNotRun && errors.Is(e.err, target) }

func (e *hasRunError) As(target any) bool { return errors.As(e.err, target) }

// thenRelease calls fn, then release, even if fn panics or ends its goroutine.
func thenRelease(release, fn func() error) (err error) {
	defer func() {
		if lease := release(); lease != nil {
			err = &ReleaseError{Err: err, Lease: lease}
			return
		}
		err = hasRun(err) //mutant:fn-of-fn
	}()
	return fn()
}

// lockFor waits for the claim.
func lockFor(ctx context.Context, claim *engine.Target) (*Lease, error) {
	l, err := claim.Lock(ctx)
	return (*Lease)(l), err
}

// tryFor takes the claim if it is granted at once.
func tryFor(ctx context.Context, claim *engine.Target) (*Lease, error) {
	l, err := claim.Try(ctx)
	return (*Lease)(l), err
}

func do(ctx context.Context, claim *engine.Target, fn func(context.Context) error) error {
	l, err := lockFor(ctx, claim)
	if err != nil {
		return notRun(err)
	}
	return run(ctx, l, fn)
}

func tryDo(ctx context.Context, claim *engine.Target, fn func(context.Context) error) (ran bool, err error) {
	l, err := tryFor(ctx, claim)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, notRun(err)
	}
	return true, run(ctx, l, fn)
}

// run is the second half of a Do: fn under the lease, then the release, even if
// fn panics or ends its goroutine.
func run(ctx context.Context, l *Lease, fn func(context.Context) error) error {
	release := func() error {
		if err := l.Release(); !errors.Is(err, ErrReleased) {
			return err
		}
		return nil // fn released it itself
	}
	l.engine().Does()
	defer l.engine().Did()
	return thenRelease(release, func() error { return fn(l.Context(ctx)) })
}

// runAll is like run, under several leases.
func runAll(ctx context.Context, all *LeaseSet, fn func(context.Context) error) error {
	release := func() error { return all.engine().ReleaseBut(ErrReleased) } // fn may have released one itself
	all.engine().Does()
	defer all.engine().Did()
	return thenRelease(release, func() error { return fn(all.Context(ctx)) })
}
