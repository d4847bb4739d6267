package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

const semaphoreVerb = "acquire slots of"

// A Target is what a primitive asks for: a name with a limit and a weight.
type Target struct {
	l             *Locker
	name          string
	limit, weight int64
	verb          string
	part          bool // it is one of several names: see multiAcquire
	leads         bool // it is of an election
}

// doing returns what the target tries to do, for errors.
func (w *Target) doing() string {
	if w.limit == store.Full {
		return w.verb
	}
	return fmt.Sprintf("acquire %d of %d slots of", w.weight, w.limit)
}

// check finds the caller's mistakes before anything is sent.
func (w *Target) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s %.100q on %s: %w: %s", w.doing(), w.name, w.l.e.desc.Store, store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case w.l.err != nil:
		return w.l.err
	case w.name == "":
		return bad("the name is empty")
	case len(w.name) > store.MaxName:
		return bad("the name has %d bytes, at most %d are allowed", len(w.name), store.MaxName)
	case !utf8.ValidString(w.name):
		return bad("the name is not UTF-8")
	case w.limit < 1 || w.limit > store.Full || w.limit == store.Full && w.verb == semaphoreVerb:
		return bad("a semaphore has 1 to %d slots, not %d", store.MaxSlots, w.limit)
	case w.weight < 1 || w.weight > w.limit:
		return bad("one can hold 1 to %d of its slots, not %d", w.limit, w.weight)
	}
	if why, lacks := w.l.e.desc.Lacks[store.PromiseSlots]; lacks && w.limit != store.Full {
		return w.errorf(fmt.Errorf("%w: %s", store.ErrUnsupported, why))
	}
	if why, lacks := w.l.e.desc.Lacks[store.PromiseUpgrade]; lacks && w.limit == store.Full && w.weight == store.Upgradeable {
		return w.errorf(fmt.Errorf("%w: %s", store.ErrUnsupported, why))
	}
	return nil
}

// Lock waits until the target is granted.
func (w *Target) Lock(ctx context.Context) (*Lease, error) {
	if again, err := w.begin(ctx); again != nil || err != nil {
		return again, err
	}
	e := w.l.e
	defer e.work.Done()
	began := e.stamp(w.l.s)
	if d := w.l.s.Wait; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	p, l, err := e.queues.enter(ctx, w, began) //mutant:all-waiters-process-ask
	if err == errOnlyTry {
		return w.try(ctx, began, false, w.tooMany)
	}
	if err != nil {
		return nil, w.failed(&values{ctx}, store.ID{}, began, err) //mutant:cancelled-wait-process-told
	}
	if l != nil {
		l.handedOver(began)
		return l, nil
	}
	r := newRequest(ctx, w, began, p) //mutant:wait-count
	defer func() { e.queues.settle(p, w, l, r.outage) }()
	l, err = r.wait(ctx)
	return l, r.failed(err) //mutant:wait-given-up-told
}

// Try acquires the target if it is granted at once. If the store must watch the holders to know whether they are alive,
// Try asks until it knows.
func (w *Target) Try(ctx context.Context) (*Lease, error) {
	if again, err := w.begin(ctx); again != nil || err != nil {
		return again, err
	}
	defer w.l.e.work.Done()
	return w.try(ctx, w.l.e.stamp(w.l.s), true, func(r *refused) HeldError { return w.refusal(&r.answer, r.when, nil) })
}

// try asks once or, if watches is set, until the store knows whether the holders are alive. refusal makes the error of a
// refusal.
func (w *Target) try(ctx context.Context, began clock.Instant, watches bool, refusal func(*refused) HeldError) (*Lease, error) {
	r := newRequest(ctx, w, began, nil)
	r.claim.Try = true
	l, err := r.ask(ctx)
	if l == nil && err == nil && watches {
		l, err = r.watch(ctx)
	}
	switch {
	case l != nil:
		w.l.e.queues.keep(w, l.hold, nil)
	case err == nil:
		err = refusal(r.refused)
	}
	return l, r.failed(err)
}

// ready does what needs no store: it checks the target, and returns a lease if the target
// re-enters a hold.
func (w *Target) ready(ctx context.Context) (again *Lease, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, w.errorf(err)
	}
	return w.reenter(ctx)
}

// begin is ready and, if the store is needed, makes Close wait until work.Done is called.
func (w *Target) begin(ctx context.Context) (again *Lease, err error) {
	if again, err := w.ready(ctx); again != nil || err != nil {
		return again, err
	}
	if !w.l.e.claims() {
		return nil, w.errorf(store.ErrClosed)
	}
	w.l.e.begin(w.l.s)
	return nil, nil
}

// gaveUp returns the error of a wait that its context or Close has ended. last is the
// store's last answer, or nil. away is why the store has not answered since, or nil.
func (w *Target) gaveUp(err error, last *refused, away error) error {
	switch {
	case errors.Is(err, store.ErrClosed):
		return w.errorf(err)
	case away != nil && last != nil:
		before := w.refusal(&last.answer, last.when, nil)
		return w.errorf(fmt.Errorf("%w; gave up waiting: %w; when it last answered: %s", indeterminate(away), err, before.Who()))
	case away != nil:
		return w.errorf(fmt.Errorf("%w; gave up waiting: %w", indeterminate(away), err))
	case last != nil:
		return w.refusal(&last.answer, last.when, err)
	}
	return w.errorf(err)
}

// refusal returns the error of a target that the store has refused with the answer,
// which came at the time when. ended is the context's error if that ended the wait.
func (w *Target) refusal(a *store.Answer, when time.Time, ended error) HeldError {
	return w.l.e.refused(w.refusalOf(a, when, ended))
}

func (w *Target) refusalOf(a *store.Answer, when time.Time, ended error) Refusal {
	_, ownersOnly := w.l.e.desc.Lacks[store.PromiseHolders]
	return Refusal{
		Doing: w.doing(), Name: w.name, Store: w.l.e.desc.Store, Limit: w.limit, Answer: a, When: when, OwnersOnly: ownersOnly, Ended: ended,
	}
}

// tooMany returns the error of a target if MaxWaiting claims wait for its name already.
func (w *Target) tooMany(ahead *refused) HeldError {
	r := w.refusalOf(&ahead.answer, ahead.when, nil)
	r.Most = w.l.s.MaxWaiting
	return w.l.e.refused(r)
}

// A Refusal has the facts for the error of a claim that was not granted.
type Refusal struct {
	Doing, Name, Store string
	Limit              int64
	Answer             *store.Answer
	When               time.Time // when the answer came
	OwnersOnly         bool      // the store knows only the owner of a holder
	Ended              error     // the context's error, if that ended a wait
	Most               int       // MaxWaiting, if that many wait already
}

// A HeldError is an error that was made from a Refusal. It matches ErrHeld.
type HeldError interface {
	error
	Who() string // who is ahead, on one line
}

// errorf adds to err what was attempted, on which name and store.
func (w *Target) errorf(err error) error {
	return fmt.Errorf("%s %q on %s: %w", w.doing(), w.name, w.l.e.desc.Store, err)
}
