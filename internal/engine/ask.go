package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// An op is one ask under way. It has copies of what it needs from the request, as
// the caller may have left the request when the op runs.
type op struct {
	e     *engine
	claim store.Claim
	part  bool // one of several names: its token is shown once all are granted
	poll  bool // it has a queue position, which this ask keeps
	once  bool // the hold is not renewed (NoRenew)
	bound time.Duration
	of    *values
	away  *trouble
	p     *waiter // in the local queue; nil: the claim bypasses the queue
}

// An outcome is the result of an op.
type outcome struct {
	answer store.Answer
	sent   clock.Instant // just before the call that last pushed the expiry
	err    error
}

// op makes the next ask. It is repeated while its outcome is indeterminate, for at
// most a TTL or longestCall, whichever is shorter. It ends sooner if the port is
// closed, or if the asks before it were not answered either. If it keeps a position,
// it may go on until that lapses.
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

// do asks. A grant with a minimum hold is renewed before the caller gets it, as the
// minimum counts only from a renewal on. A claim whose caller never got the lease
// must not keep the name closed. So do does not renew once the caller has left. If
// the caller leaves during the renewal, the claim is withdrawn, which keeps no minimum.
func (o op) do(stop <-chan struct{}) (out outcome) {
	if o.poll { //mutant:places-at-one-instant
		defer o.e.polls.enter(o.e, stop)()
		if ended(stop) { //mutant:sent-for-nobody
			out.err = context.Canceled // not read
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

// shows reports whether a grant is renewed before the caller gets it. It is if it has a minimum hold; or if it is not
// renewed later and came after a wait: then it lasts only as long as the session that kept the position. A wait inside
// one ask, in the store, can be recognized only by that shorter time.
func (o *op) shows(a *store.Answer) bool {
	return o.claim.MinHold > 0 ||
		o.once && a.TTL < o.claim.TTL && (o.poll || o.claim.PositionTTL < o.claim.TTL && a.TTL <= o.claim.PositionTTL) //mutant:lasts-as-a-position
}

// closedFor is how long an ask is repeated if nothing listens on the port: the
// caller gets the error within a second.
const closedFor = 900 * time.Millisecond

// worthIt returns a function that reports, after a failure, whether to ask again
// after the pause. It returns false if nothing has listened on the port for closedFor.
// An ask that keeps a position goes on even then; only the waiters in line behind it
// fail, with the error.
func (o op) worthIt() func(error, time.Duration) bool {
	listened := o.e.whileListened()
	if !o.poll || listened == nil { //mutant:place-where-nobody-listens
		return listened
	}
	e, p := o.e, o.p // capturing o would put it on the heap in every call
	return func(err error, pause time.Duration) bool {
		if p != nil && !listened(err, pause) {
			e.queues.fail(p.queue, err) //mutant:line-behind-a-position
		}
		return true
	}
}

// whileListened returns a function that reports, after a failure, whether to go on
// after the pause. It returns false if, closedFor from now, the failure is still that
// nothing listens on the port. A nil function means always.
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

// renewOne renews a hold that the scheduler does not manage. It retries until the
// outcome is known, d has passed, worthIt returns false, or stop is closed. The
// renewed TTL counts from the returned instant.
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

// run calls op on another goroutine, so that a caller whose context ends can leave
// at once. Then op runs on, and the claim is withdrawn when op has returned. To save
// a switch of goroutines, run calls op directly if the caller never has to leave:
// the store is in this process and so never blocks, or the context never ends and no
// other waiter can report an outage to this one.
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
	// The caller has entered, so this is not beside the end of work.
	r.e.work.Add(1)
	r.e.crew.Run(func() {
		defer r.e.work.Done()
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

// errOutage ends the wait of a claim when another claim of the same local queue has
// met an outage. The cause is in waiter.met.
var errOutage = errors.New("outage")

// withdraw releases the claim's entry in the store. The claim's id is not used again.
func (r *request) withdraw() {
	if r.e.desc.InProcess { // at once: nothing may be left when the caller has its answer
		h := store.Hold{Name: r.claim.Name, ID: r.claim.ID, Announce: r.claim.Announce}
		if r.e.store.Release(context.Background(), h) == nil {
			return
		}
	}
	of, claim, bound := &r.values, r.claim, r.s.askFor() //mutant:values-of-a-withdrawal
	r.e.work.Go(func() { r.e.withdraw(of, claim, bound) })
}

// withdraw is the last operation of a claim that got no token, or whose caller has
// left. If it cannot reach the store, the claim expires with its TTL.
func (e *engine) withdraw(of *values, c store.Claim, bound time.Duration) { //mutant:cancelled-wait-leaves-place-behind
	_ = e.repeat(of, bound, nil, func(ctx context.Context) error {
		return e.store.Release(ctx, store.Hold{Name: c.Name, ID: c.ID, Announce: c.Announce}) //mutant:withdrawal-announces
	})
}

// newID withdraws the claim and makes it a new one, at the end of the queue.
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
