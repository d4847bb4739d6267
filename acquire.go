package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// lock waits until the want is granted.
func (w *want) lock(ctx context.Context) (*Lease, error) {
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	e := w.l.e
	defer e.work.Done()
	if d := w.l.s.Wait; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if last, err := e.gates.enter(ctx, w.name, e.closing); err != nil {
		return nil, w.gaveUp(err, last)
	}
	defer e.gates.leave(w.name)
	return newRequest(w).wait(ctx)
}

// try takes the want if it is granted at once.
func (w *want) try(ctx context.Context) (*Lease, error) {
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	defer w.l.e.work.Done()
	r := newRequest(w)
	r.claim.Try = true
	l, err := r.ask(ctx)
	if l == nil && err == nil {
		err = w.refusal(&r.refused.answer, r.refused.when, nil)
	}
	return l, err
}

func (w *want) do(ctx context.Context, fn func(context.Context) error) error {
	l, err := w.lock(ctx)
	if err != nil {
		return err
	}
	return l.run(ctx, fn)
}

func (w *want) tryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	l, err := w.try(ctx)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, l.run(ctx, fn)
}

// begin checks everything that can be checked without the store, and keeps
// Close waiting until work.Done is called.
func (w *want) begin(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return w.errorf(err)
	}
	if err := w.waitsForItself(ctx); err != nil {
		return err
	}
	if !w.l.e.enter() {
		return w.errorf(ErrClosed)
	}
	w.l.e.begin(w.l.s)
	return nil
}

// waitsForItself is ErrDeadlock if the leases that ctx comes from are in the
// way of the want: its caller would wait for itself.
func (w *want) waitsForItself(ctx context.Context) error {
	own := int64(0)
	first, _ := ctx.Value(leaseKey{}).(*leases)
	for ls := first; ls != nil; ls = ls.outer {
		l := ls.lease
		if l.e == w.l.e && l.hold.Name == w.name && l.Valid() && !ls.again(first) {
			own += l.weight
			if w.limit == store.Full || own+w.weight > w.limit {
				return w.errorf(ErrDeadlock)
			}
		}
	}
	return nil
}

// gaveUp is the error of a wait that its context, or Close, has ended.
func (w *want) gaveUp(err error, last *refused) error {
	if last != nil && !errors.Is(err, ErrClosed) {
		return w.refusal(&last.answer, last.when, err)
	}
	return w.errorf(err)
}

// A request is one claim on its way to being a lease: the one waiting loop. Its
// operations on the store never overlap.
type request struct {
	w *want
	e *engine
	s *settings

	claim   store.Claim
	sent    clock.Instant // when the newest ask that was answered was sent
	took    time.Duration // how long that took
	placed  bool          // that ask left a place in the queue
	refused *refused      // what the store answered last; nil: not yet
	hints   chan store.Hint
	poll    time.Duration // the next pause, where no hints come
	ends    clock.Instant // when the context ends; 0: not known
	last    bool          // the last ask before that was sent
}

func newRequest(w *want) *request {
	r := &request{w: w, e: w.l.e, s: w.l.s, poll: w.l.s.PollMin}
	r.claim = store.Claim{
		Name: w.name, ID: r.e.process.NewID(), Limit: w.limit, Weight: w.weight,
		TTL: r.s.TTL, Place: r.s.place, Keep: r.s.MinHold, Delay: r.s.LockDelay, Owner: r.s.owner,
	}
	return r
}

// wait asks until the claim is granted or the wait is over.
func (r *request) wait(ctx context.Context) (*Lease, error) {
	if d, ok := ctx.Deadline(); ok {
		r.ends = r.e.now().Add(time.Until(d))
	}
	// A name that is free needs no subscription: where there is none yet, the
	// first ask is a try, and the place is asked for once hints cannot be
	// missed any more.
	r.claim.Try = r.e.hints.watcher != nil && !r.e.hints.ready()
	if !r.claim.Try {
		r.listen()
	}
	defer r.deaf()
	for {
		l, err := r.ask(ctx)
		if l != nil || err != nil {
			return l, err
		}
		r.e.gates.refuse(r.w.name, r.refused)
		if r.claim.Try {
			r.e.hints.subscribe(ctx, r.s)
			r.claim.Try = false
			r.listen()
			continue
		}
		l, err = r.pause(ctx)
		if l != nil || err != nil {
			return l, err
		}
	}
}

// pause returns when it is time to ask again: at a hint, or at nextAsk. Where
// no hints come it looks in growing pauses whether there is room. A hint may
// carry the grant itself.
func (r *request) pause(ctx context.Context) (*Lease, error) {
	for {
		next := r.nextAsk()
		polling := !r.e.hints.ready()
		if polling {
			r.e.hints.begin(r.s) // again, if that failed a while ago
			next = min(next, r.e.now().Add(jitter(r.poll)))
			r.poll = min(r.poll*3/2, r.s.PollMax)
		}
		hint, err := r.sleep(ctx, next)
		switch {
		case err != nil:
			r.withdraw()
			return nil, r.w.gaveUp(err, r.refused)
		case hint != nil:
			return r.grantedBy(hint)
		case !polling || r.e.now() >= r.nextAsk():
			return nil, nil
		}
		if room, err := r.room(ctx); err != nil {
			return nil, r.w.gaveUp(err, r.refused) // run has the claim withdrawn
		} else if room {
			return nil, nil
		}
	}
}

// nextAsk is when to ask again if nothing is heard: at the end of the first
// obstacle ahead, after a third of the place's time, or just before the
// context ends, whichever is first.
func (r *request) nextAsk() clock.Instant {
	at := r.sent.Add(r.s.place / 3)
	if until := r.refused.answer.Until; until > 0 {
		// Counted from when the answer came, so not too early.
		at = min(at, r.sent.Add(r.took+max(until, time.Millisecond)))
	}
	if r.ends != 0 && !r.last {
		at = min(at, r.lastAsk())
	}
	return at
}

// lastAsk is when the last ask before the end of the context has to be sent in
// order to be answered in time, going by the one before.
func (r *request) lastAsk() clock.Instant {
	return r.ends.Add(-min(max(2*r.took, 5*time.Millisecond), 250*time.Millisecond))
}

// sleep returns a hint, or nil at the instant, or an error if the wait is over.
func (r *request) sleep(ctx context.Context, until clock.Instant) (*store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select { // it may be past the time to ask, and a hint spares that
	case h := <-r.hints:
		return &h, nil
	default:
	}
	timer := time.NewTimer(until.Sub(r.e.now()))
	defer timer.Stop()
	select {
	case h := <-r.hints:
		return &h, ctx.Err() // both may have come: after its end nothing is granted
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.e.closing:
		return nil, ErrClosed
	}
}

// room looks whether an ask is worth while. An error means that the wait is
// over.
func (r *request) room(ctx context.Context) (bool, error) {
	looker, ok := r.e.store.(store.Looker)
	if !ok {
		return true, nil
	}
	claim := r.claim
	return run(r, ctx, func(<-chan struct{}) (room bool) {
		c, cancel := r.e.bounded(longestCall)
		defer cancel()
		a, err := looker.Look(c, claim)
		return err == nil && a.Granted || store.Definite(err)
	})
}

// grantedBy makes a lease of a hint that carries the grant, if it may be used
// without asking: its token is newer than all that the newest answer knew, so
// it is not about an earlier grant; and half of the place's time, which is all
// that the store has granted, is left. The lease counts from the sending of the
// ask that asked for the place. A minimum hold has to be shown first.
func (r *request) grantedBy(h *store.Hint) (*Lease, error) {
	fresh := h.Token > r.refused.answer.Last && r.e.now() < r.sent.Add(r.s.place/2)
	if h.ID != r.claim.ID || !fresh || r.claim.Keep > 0 {
		return nil, nil
	}
	return r.lease(h.Token, r.sent, r.s.place, r.s.place/3)
}

// ask asks once and reads the answer: a lease, or an error, or neither if it is
// refused.
func (r *request) ask(ctx context.Context) (*Lease, error) {
	for again := 0; ; again++ {
		if err := ctx.Err(); err != nil { // it ended at the gate, or while we subscribed
			if r.placed {
				r.withdraw()
			}
			return nil, r.w.gaveUp(err, r.refused)
		}
		if r.placed && r.e.now() >= r.sent.Add(r.s.place) {
			r.newID() // the place has lapsed
		}
		r.last = r.ends != 0 && r.e.now() >= r.lastAsk()
		out, err := run(r, ctx, r.op().do)
		if err != nil {
			return nil, r.w.gaveUp(err, r.refused)
		}
		switch {
		case errors.Is(out.err, ErrLost) && again < 3:
			r.newID()
			continue
		case errors.Is(out.err, ErrLost):
			return nil, r.w.errorf(fmt.Errorf("%w: the store drops our place again and again", ErrUnavailable))
		case out.err != nil:
			if r.placed || r.claim.Keep > 0 || !store.Definite(out.err) { // something may be there
				r.withdraw()
			}
			return nil, r.w.errorf(unclear(out.err))
		}
		if !out.answer.Granted {
			r.sent, r.took = out.sent, r.e.now().Sub(out.sent)
			r.placed = !r.claim.Try
			r.refused = &refused{out.answer, time.Now()}
			return nil, nil
		}
		if err := ctx.Err(); err != nil { // after its end nothing is granted
			r.withdraw()
			return nil, r.w.gaveUp(err, r.refused)
		}
		from := out.sent
		if out.answer.From != 0 {
			from = out.answer.From
		}
		if !r.e.desc.InProcess && deadlineOf(from, out.answer.TTL) <= r.e.now() {
			// The answer came when our time was over.
			if again < 3 {
				continue
			}
			r.withdraw()
			return nil, r.w.errorf(fmt.Errorf("%w: its answers take longer than the TTL, %v", ErrUnavailable, r.s.TTL))
		}
		return r.lease(out.answer.Token, from, out.answer.TTL, r.s.renewAfter(out.answer.TTL))
	}
}

// lease makes the lease, which holds for ttl from the instant on and is to be
// renewed when the duration renew of it is gone. If the locker was closed
// meanwhile it is given back.
func (r *request) lease(token int64, from clock.Instant, ttl, renew time.Duration) (*Lease, error) {
	l := &Lease{
		e: r.e, s: r.s, doing: r.w.doing(), weight: r.claim.Weight,
		hold: store.Hold{Name: r.claim.Name, ID: r.claim.ID, Token: token},
	}
	if !r.e.sched.add(l, deadlineOf(from, ttl), from.Add(renew)) {
		r.withdraw()
		return nil, r.w.errorf(ErrClosed)
	}
	l.debug("holdfast: granted")
	return l, nil
}

// An op is one ask on its way, with what it needs of the request: the request
// may have been left when it runs.
type op struct {
	e     *engine
	claim store.Claim
	bound time.Duration
}

// An outcome is what became of an op.
type outcome struct {
	answer store.Answer
	sent   clock.Instant // before the call that last pushed the expiry
	err    error
}

// op is the next ask. While it is unclear it is repeated for at most five
// seconds or a TTL; a kept place until it would lapse, if that is longer.
func (r *request) op() op {
	o := op{e: r.e, claim: r.claim, bound: min(r.s.TTL, longestCall)}
	if r.placed {
		o.bound = max(o.bound, r.sent.Add(r.s.place).Sub(r.e.now()))
	}
	return o
}

// do asks. A grant with a minimum hold is renewed before its owner has it: only
// that makes the minimum count, and nobody must be able to close the name
// without having had it.
func (o op) do(stop <-chan struct{}) (out outcome) {
	out.err = o.e.repeat(o.bound, stop, func(ctx context.Context) (err error) {
		out.sent = o.e.now()
		out.answer, err = o.e.store.Ask(ctx, o.claim)
		return err
	})
	if out.err != nil || !out.answer.Granted || o.claim.Keep == 0 {
		return out
	}
	hold := store.Hold{Name: o.claim.Name, ID: o.claim.ID, Token: out.answer.Token, TTL: o.claim.TTL}
	out.err = o.e.repeat(o.bound, stop, func(ctx context.Context) error {
		out.sent = o.e.now()
		r := o.e.store.Renew(ctx, []store.Hold{hold})[0]
		out.answer.TTL, out.answer.From = r.TTL, r.From
		return r.Err
	})
	return out
}

// run does what op says off the caller's goroutine, so that a caller whose
// context ends can leave at once: the operation runs on, and when it has been
// answered the claim is withdrawn. It is called directly where there is nothing
// to leave for, which spares the change of goroutines: if the store is in this
// process and so never blocks, or the context never ends.
func run[T any](r *request, ctx context.Context, op func(stop <-chan struct{}) T) (out T, err error) {
	if r.e.desc.InProcess {
		out = op(ctx.Done())
		if err := ctx.Err(); err != nil {
			r.withdraw()
			return out, err
		}
		return out, nil
	}
	if ctx.Done() == nil {
		if out = op(r.e.closing); r.e.isClosing() {
			r.withdraw()
			return out, ErrClosed
		}
		return out, nil
	}
	done, stop := make(chan T), make(chan struct{})
	claim, ttl := r.claim, r.s.TTL
	r.e.work.Go(func() {
		out := op(stop)
		select {
		case done <- out:
		case <-stop:
			r.e.withdraw(claim, ttl)
		}
	})
	select {
	case out = <-done:
		return out, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.e.closing:
		err = ErrClosed
	}
	close(stop)
	return out, err
}

// withdraw gives back whatever the claim has. Nothing is asked for by this id
// any more.
func (r *request) withdraw() {
	if r.e.desc.InProcess { // so that nothing is left when the caller has its answer
		h := store.Hold{Name: r.claim.Name, ID: r.claim.ID}
		if r.e.store.Release(context.Background(), h) == nil {
			return
		}
	}
	claim, ttl := r.claim, r.s.TTL
	r.e.work.Go(func() { r.e.withdraw(claim, ttl) })
}

// withdraw is the last operation of a claim that was not told a token, or whose
// caller has gone. What it cannot reach is gone after the TTL.
func (e *engine) withdraw(c store.Claim, ttl time.Duration) {
	_ = e.repeat(min(ttl, longestCall), nil, func(ctx context.Context) error {
		return e.store.Release(ctx, store.Hold{Name: c.Name, ID: c.ID})
	})
}

// newID goes on as a new claim, at the end of the queue.
func (r *request) newID() {
	r.withdraw()
	listening := r.hints != nil
	r.deaf()
	r.claim.ID = r.e.process.NewID()
	r.placed = false
	if listening {
		r.listen()
	}
}

func (r *request) listen() { r.hints = r.e.hints.add(r.claim.ID) }

func (r *request) deaf() {
	if r.hints != nil {
		r.e.hints.remove(r.claim.ID)
	}
}

// repeat calls f until its outcome is clear, for at most d in all, or until
// stop.
func (e *engine) repeat(d time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	var end clock.Instant
	if !e.desc.InProcess { // there a call takes no time, and reading the clock is most of it
		end = e.now().Add(d)
	}
	for left, pause := d, 10*time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		ctx, cancel := e.bounded(left)
		err := f(ctx)
		cancel()
		if err == nil || store.Definite(err) {
			return err
		}
		if end == 0 {
			end = e.now().Add(d)
		}
		wait := jitter(pause)
		if left = end.Sub(e.now()) - wait; left <= 0 {
			return unclear(err)
		}
		select {
		case <-time.After(wait):
		case <-stop:
			return unclear(err)
		}
	}
}
