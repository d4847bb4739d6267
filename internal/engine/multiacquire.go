package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A multiAcquire is one acquisition of a Several.
type multiAcquire struct {
	e       *engine
	s       *settings // of the leases that the caller gets
	waiting *settings // of a hold that waits for the other names
	before  string    // names that sort before this one are only tried
	parts   []*Lease  // one for each target; nil: not granted yet
	away    trouble   // the failures while the tokens are shown
	own     []*Lease  // the parts that the caller did not have before; set by settle
}

// all acquires the names. It begins with those that the caller has already, which need
// no request.
func (t *multiAcquire) all(ctx context.Context, targets []Target, try bool) (err error) {
	for i := range targets {
		if t.parts[i], err = targets[i].ready(ctx); err != nil {
			return err
		}
	}
	for i := range targets {
		if t.parts[i] == nil {
			if t.parts[i], err = t.next(ctx, &targets[i], try); err != nil {
				return err
			}
		}
	}
	return nil
}

// next acquires one more name.
func (t *multiAcquire) next(ctx context.Context, w *Target, try bool) (*Lease, error) {
	during := ctx // ends with any of the parts so far
	for _, l := range t.parts {
		if l != nil {
			during = l.Context(during) //mutant:loss-end-wait-others
		}
	}
	take := w.Lock
	if try || w.name < t.before { //mutant:name-before-held-waited
		take = w.Try
	}
	l, err := take(during)
	if err == nil {
		return l, nil
	}
	if lost := t.lost(); lost != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) { // the loss ended the context during
		if t.e.isClosing() { //mutant:close-between-names
			lost = w.errorf(store.ErrClosed)
		}
		return nil, lost
	}
	if held := HeldError(nil); !try && w.name < t.before && errors.As(err, &held) {
		return nil, w.errorf(fmt.Errorf("%w: it sorts before %q, which is held here already, so it is not waited for: %s", store.ErrDeadlock, t.before, held.Who()))
	}
	return nil, err
}

// lost returns an error if one of the parts so far is no longer valid.
func (t *multiAcquire) lost() error {
	for _, l := range t.parts {
		if l != nil && !l.Valid() {
			return l.errorf(fmt.Errorf("%w while it waited for the other names", store.ErrLost))
		}
	}
	return nil
}

// undo gives back the leases, in reverse order. If ctx ends, undo returns and the work
// goes on in the background.
func (t *multiAcquire) undo(ctx context.Context) {
	if t.e.desc.InProcess {
		giveBack(t.parts)
		return
	}
	done := make(chan struct{})
	t.e.work.Go(func() {
		defer close(done)
		giveBack(t.parts)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// giveBack releases the leases in reverse order. Failures are only logged.
func giveBack(parts []*Lease) {
	for _, l := range slices.Backward(parts) {
		if l != nil {
			_ = l.release()
		}
	}
}

// giveBackUnrun gives back leases that the caller never got: a token may have been
// shown, but no minimum hold is kept.
func (t *multiAcquire) giveBackUnrun() {
	for _, l := range t.own {
		l.hold.unrun.Store(true) //mutant:given-back-if-caller
	}
	for _, l := range slices.Backward(t.parts) {
		err := l.release()
		if slices.Contains(t.own, l) {
			t.e.beside.gaveBack(t.e, err) //mutant:borrowed-not-counted
		}
	}
}

// finish applies the caller's settings to the parts once all names are granted: a
// minimum hold and MaxHold begin to count, and under NoRenew automatic renewal ends.
// If ctx ends meanwhile, finish returns and all parts are released in the background.
func (t *multiAcquire) finish(ctx context.Context) error {
	if len(t.parts) == 1 || t.s.MinHold == 0 && t.s.MaxHold == 0 && !t.s.NoRenew {
		return nil
	}
	if t.e.desc.InProcess {
		return t.settle(nil)
	}
	done, stop := make(chan error), make(chan struct{})
	t.e.work.Go(func() {
		err := t.settle(stop)
		select {
		case done <- err:
		case <-stop:
			if err == nil { // otherwise settle has given them back
				t.giveBackUnrun() //mutant:left-while-shown
			}
		}
	})
	var err error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = t.parts[0].errorf(ctx.Err())
		if away := t.away.now(t.e); away != nil {
			err = t.parts[0].errorf(fmt.Errorf("%w; gave up waiting: %w", indeterminate(away), ctx.Err()))
		}
	case <-t.e.closing:
		err = t.parts[0].errorf(store.ErrClosed)
	}
	close(stop)
	return err
}

// settle takes the holds from the scheduler, renews them if they have a minimum hold
// or will not be renewed any more, and returns them to the scheduler with the caller's
// settings. Until then, holds with a minimum hold were kept by asking again, which
// shows no token, so that releasing them kept no name closed.
func (t *multiAcquire) settle(stop <-chan struct{}) (err error) {
	defer func() {
		if err != nil {
			t.giveBackUnrun()
		}
	}()
	settled := make(chan struct{})
	for _, l := range t.parts {
		if l.hold.s == t.waiting {
			t.own = append(t.own, l)
			t.e.sched.borrow(l.hold, settled)
		}
	}
	own := t.own
	defer close(settled)
	if err := t.lost(); err != nil {
		return err
	}
	if (t.s.MinHold > 0 || t.s.NoRenew) && len(own) > 0 { //mutant:minimum-hold-never-shown
		if err := t.renew(own, stop); err != nil {
			return err
		}
	}
	for _, l := range own {
		if why := l.hold.settle(t.s); why != nil {
			return l.errorf(why)
		}
	}
	return t.lost()
}

// settle returns a borrowed hold to the scheduler, with the settings.
func (h *hold) settle(s *settings) error {
	h.e.sched.mu.Lock() // Close may read the hold, if it found it before it was borrowed
	defer h.e.sched.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flight = nil
	switch {
	case h.reported != nil:
		return h.reported
	case h.done:
		return errClosed
	}
	h.s, h.unshown = s, nil
	if s.NoRenew { //mutant:renewed-though-nobody-asked
		h.renewAt = never
		h.handOver = handOver{} // its waiters expect leases that are renewed //mutant:several-names-without-renewal
	}
	if !h.e.sched.put(h, h.deadline, h.renewAt) {
		return store.ErrClosed
	}
	return nil
}

// renew renews the holds in one call, with the values of the first one's claim.
func (t *multiAcquire) renew(own []*Lease, stop <-chan struct{}) error {
	holds := make([]store.Hold, len(own))
	for i, l := range own {
		holds[i] = l.hold.Hold
		holds[i].TTL = t.s.TTL
		holds[i].ByHand = t.s.NoRenew //mutant:several-renewed-as-by-hand
	}
	claim := own[0].hold.values //mutant:several-renewed-in-no-trace
	var sent clock.Instant
	var answers []store.Renewal
	t.away.began(t.e)
	defer t.away.ended()
	err := t.e.repeat(claim, t.s.releaseFor(), stop, func(ctx context.Context) (err error) {
		sent = t.e.now()
		answers = t.e.store.Renew(ctx, holds)
		for i := range answers {
			if why := answers[i].Err; why != nil && !store.Definite(err) {
				err = own[i].errorf(why)
			}
		}
		t.away.met(t.e, err)
		return err
	})
	if err != nil {
		return err
	}
	t.e.sched.mu.Lock()
	defer t.e.sched.mu.Unlock()
	for i, l := range own {
		if why := l.hold.renewed(answers[i], sent, sent, t.e.now()); why != nil {
			return l.errorf(why)
		}
	}
	return nil
}
