package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// An op is one ask on its way, with what it needs of the request: the request
// may have been left when it runs.
type op struct {
	e     *engine
	claim store.Claim
	part  bool // it is shown when all names are there
	poll  bool // it has a position, which this keeps
	once  bool // nobody renews what it is granted
	bound time.Duration
	of    *values
	away  *trouble
	p     *waiter // in the local queue; nil: past it
}

// An outcome is what became of an op.
type outcome struct {
	answer store.Answer
	sent   clock.Instant // before the call that last pushed the expiry
	err    error
}

// op is the next ask. While it is indeterminate it is repeated for at most five
// seconds or a TTL, and less where nobody listens, or where those before it were
// not answered either; a kept position until it would lapse, if that is longer.
func (r *request) op() op {
	o := op{e: r.e, claim: r.claim, part: r.w.part, poll: r.queued, once: r.s.NoRenew, bound: r.s.askFor(), of: &r.values, away: r.away, p: r.p}
	if r.e.desc.InProcess {
		return o
	}
	now := r.e.now()
	if r.away.from == 0 {
		r.away.from = now
	}
	if r.queued {
		o.bound = max(o.bound, r.sent.Add(r.s.positionTTL).Sub(now))
	} else {
		o.bound = min(o.bound, max(r.away.from.Add(o.bound).Sub(now), closedFor)) //mutant:successor-begins-anew
	}
	return o
}

// do asks. A grant with a minimum hold is renewed before its owner has it: only
// that makes the minimum count, and nobody must be able to close the name
// without having had it. So it is not renewed once the caller has left; one that
// leaves during the renewal has the claim withdrawn, which keeps no minimum.
func (o op) do(stop <-chan struct{}) (out outcome) {
	if o.poll { //mutant:places-at-one-instant
		defer o.e.polls.enter(o.e, stop)()
		if ended(stop) { //mutant:sent-for-nobody
			out.err = context.Canceled // which nobody reads
			return out
		}
	}
	out.err = o.e.repeatWhile(o.of, o.worthIt(), o.bound, stop, func(ctx context.Context) (err error) {
		out.sent = o.e.now()                          //mutant:deadline-grant-counts-reply
		out.answer, err = o.e.store.Ask(ctx, o.claim) //mutant:deadline-counts-reply-too
		o.away.met(o.e, err)
		return err
	})
	if out.err != nil || !out.answer.Granted || !o.shows(&out.answer) || o.part || ended(stop) { //mutant:minimum-hold-shown-once
		return out
	}
	hold := store.Hold{Name: o.claim.Name, ID: o.claim.ID, Token: out.answer.Token, TTL: o.claim.TTL, ByHand: o.once, Announce: o.claim.Announce} //mutant:shown-as-by-hand
	var r store.Renewal
	r, out.sent = o.e.renewOne(o.of, o.worthIt(), o.bound, stop, hold, o.away)
	out.answer.TTL, out.answer.From, out.err = r.TTL, r.From, r.Err
	return out
}

// shows reports whether a grant is renewed before its owner has it: for its minimum hold; or as nobody renews it later, and who has waited
// has it in the session that kept its position, which lasts for a shorter time. Who has waited within one ask, in the store, is known by
// that time alone.
func (o *op) shows(a *store.Answer) bool {
	return o.claim.MinHold > 0 ||
		o.once && a.TTL < o.claim.TTL && (o.poll || o.claim.PositionTTL < o.claim.TTL && a.TTL <= o.claim.PositionTTL) //mutant:lasts-as-a-position
}

// closedFor is for how long an ask is repeated if nothing listens on the port: the
// caller gets the error within a second.
const closedFor = 900 * time.Millisecond

// worthIt reports after each failure whether to ask again after a pause: not if
// nothing has listened on the port for a while, unless a position is to be kept.
// Then the waiters in line behind it fail with the error.
func (o op) worthIt() func(error, time.Duration) bool {
	listened := o.e.whileListened()
	if !o.poll || listened == nil { //mutant:place-where-nobody-listens
		return listened
	}
	e, p := o.e, o.p // o itself would be on the heap in every call
	return func(err error, pause time.Duration) bool {
		if p != nil && !listened(err, pause) {
			e.queues.fail(p.queue, err) //mutant:line-behind-a-position
		}
		return true
	}
}

// whileListened says after each failure from now on whether it is worth while to
// go on after a pause: not where nobody has listened for a while. nil says so always.
func (e *engine) whileListened() func(error, time.Duration) bool {
	if e.desc.InProcess {
		return nil
	}
	end := e.now().Add(closedFor)
	return func(err error, pause time.Duration) bool {
		return e.now().Add(pause) < end || !nobodyListens(err) //mutant:closed-port
	}
}

// ended reports whether the channel is closed.
func ended(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// renewOne renews a hold that the scheduler does not look after, until it is
// clear what became of that, for at most d in all, while worthIt says so, or until
// stop. What it was granted counts from the instant.
func (e *engine) renewOne(of *values, worthIt func(error, time.Duration) bool, d time.Duration, stop <-chan struct{}, h store.Hold, away *trouble) (r store.Renewal, from clock.Instant) {
	r.Err = e.repeatWhile(of, worthIt, d, stop, func(ctx context.Context) error {
		from = e.now() //mutant:adopted-answer
		r = e.store.Renew(ctx, []store.Hold{h})[0]
		away.met(e, r.Err)
		return r.Err
	})
	if r.From != 0 {
		from = r.From
	}
	return r, from
}

// run does what op says off the caller's goroutine, so that a caller whose
// context ends can leave at once: the operation runs on, and when it has been
// answered the claim is withdrawn. It is called directly where there is nothing
// to leave for, which saves a switch of goroutines: if the store is in this
// process and so never blocks; or if the context never ends and the claim was the
// first to come, so that no other waiter learns of an outage before it.
func run[T any](r *request, ctx context.Context, op func(stop <-chan struct{}) T) (out T, err error) {
	if r.e.desc.InProcess {
		out = op(ctx.Done())
		if err := ctx.Err(); err != nil { //mutant:answer-grants-after-end-context
			r.withdraw()
			return out, err
		}
		return out, nil
	}
	r.away.began(r.e)
	var outage <-chan struct{}
	if r.p != nil && !r.queued {
		outage = r.p.outage
	}
	if ctx.Done() == nil && outage == nil {
		defer r.away.ended()
		if out = op(r.e.closing); r.e.isClosing() {
			r.withdraw()
			return out, store.ErrClosed
		}
		return out, nil
	}
	done, stop := make(chan T), make(chan struct{})
	of, claim, bound := &r.values, r.claim, r.s.askFor() //mutant:values-of-a-late-withdrawal
	r.e.work.Go(func() {
		out := op(stop)
		select {
		case done <- out:
		case <-stop:
			r.e.withdraw(of, claim, bound) //mutant:cancelled-ask-withdrawn
		}
	})
	select {
	case out = <-done:
		r.away.ended()
		return out, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.e.closing:
		err = store.ErrClosed
	case <-outage:
		err = errOutage
	}
	close(stop) //mutant:cancelled-ask-withdrawn-while
	return out, err
}

// errOutage ends the wait of a claim because another claim in the same local queue
// has met an outage. The cause is in its waiter, as met.
var errOutage = errors.New("outage")

// withdraw releases what the claim has. Its id is not used again.
func (r *request) withdraw() {
	if r.e.desc.InProcess { // so that nothing is left when the caller has its answer
		h := store.Hold{Name: r.claim.Name, ID: r.claim.ID, Announce: r.claim.Announce}
		if r.e.store.Release(context.Background(), h) == nil {
			return
		}
	}
	of, claim, bound := &r.values, r.claim, r.s.askFor() //mutant:values-of-a-withdrawal
	r.e.work.Go(func() { r.e.withdraw(of, claim, bound) })
}

// withdraw is the last operation of a claim that returned no token, or whose
// caller has gone. If it cannot reach the store, the claim expires with its TTL.
func (e *engine) withdraw(of *values, c store.Claim, bound time.Duration) { //mutant:cancelled-wait-leaves-place-behind
	_ = e.repeat(of, bound, nil, func(ctx context.Context) error {
		return e.store.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Announce: c.Announce}) //mutant:withdrawal-announces
	})
}

// newID goes on as a new claim, at the end of the queue.
func (r *request) newID() {
	r.withdraw()
	listening := r.notified != nil
	r.unlisten()
	r.claim.ID = r.e.process.NewID()
	r.queued = false
	if listening {
		r.listen()
	}
}

func (r *request) listen() {
	if r.notified == nil {
		r.notified = make(chan store.Notification, 1)
	}
	r.e.notifications.add(r.claim.ID, r.notified)
}

func (r *request) unlisten() {
	if r.notified != nil {
		r.e.notifications.remove(r.claim.ID)
	}
}
