package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A request is one claim on its way to being a lease: the one waiting loop. Its
// operations on the store never overlap.
type request struct {
	pace
	w       *Target
	claim   store.Claim
	began   clock.Instant // when the caller asked, if there is an observer
	stays   bool          // it waits, and so goes on while the store answers
	queued  bool          // the newest ask that was answered left a position in the queue
	asked   bool          // an ask since may have left something
	p       *waiter       // in the local queue; nil: past it
	away    *trouble      // what the operation under way meets
	outage  error         // the store's, if that has ended the wait
	past    bool          // it counts among those that wait past the local queue
	pos     ahead         // what the observer received last
	values  values        // of the caller's context
	orphans uint64        // of the scheduler, before the newest ask
}

// newRequest is for a claim that is inside its local queue, or has no waiter there.
func newRequest(ctx context.Context, w *Target, began clock.Instant, p *waiter) *request {
	r := &request{w: w, values: values{ctx}, began: began, pace: newPace(w), p: p}
	if p != nil {
		r.away, r.refused = &p.away, p.refused
	} else {
		r.away = new(trouble)
	}
	r.claim = store.Claim{
		Name: w.name, ID: r.e.process.NewID(), Limit: w.limit, Weight: w.weight,
		TTL: r.s.TTL, PositionTTL: r.s.positionTTL, MinHold: r.s.MinHold, LockDelay: r.s.LockDelay, Block: w.block(), Owner: r.s.owner,
		Announce: w.leads, //mutant:candidate-announces
	}
	return r
}

// wait asks until the claim is granted or the wait is over.
func (r *request) wait(ctx context.Context) (*Lease, error) {
	r.endsWith(ctx)
	r.stays = true
	// A free name needs no subscription. If there is no subscription yet, the first
	// ask is a try, and the claim asks for a queue position once it cannot miss a
	// notification. If the store has no notifications, that try would be wasted.
	r.claim.Try = r.e.notifications.toCome()
	if r.claim.Waits = r.claim.Try; !r.claim.Try { //mutant:first-try-is-a-try
		r.listen()
	}
	defer r.unlisten()
	defer r.e.queues.leavePast(r)
	for {
		l, err := r.ask(ctx)
		if l != nil || err != nil {
			return l, err
		}
		if !r.e.queues.mayWait(r) {
			if r.queued { //mutant:one-too-many-leaves-its-position
				r.withdraw()
			}
			return nil, r.w.tooMany(r.refused)
		}
		r.e.queues.answered(r.p, r.refused, r.queued, r.notified, r.claim.GiveUp)
		r.tellWaiting(&r.refused.answer)
		if r.claim.Try {
			r.queue(ctx)
			continue
		}
		l, err = r.pause(ctx)
		if l != nil || err != nil {
			return l, err
		}
	}
}

// queue has the next ask be one for a position.
func (r *request) queue(ctx context.Context) {
	r.e.notifications.subscribe(ctx, r.s) //mutant:asked-before-subscribed
	r.claim.Try, r.claim.Waits = false, false
	r.listen()
}

// pause returns when it is time to ask again: at a notification, or at nextAsk. Where
// no notifications come it polls in growing pauses. A notification may
// carry the grant itself.
func (r *request) pause(ctx context.Context) (*Lease, error) {
	for {
		notification, polling, err := r.rest(ctx, r.e.queues.leads(r.p))
		switch {
		case err != nil:
			r.withdraw() //mutant:cancelled-wait-leaves-place
			return nil, r.gaveUp(err)
		case notification != nil:
			return r.grantedBy(notification)
		case !polling || r.e.now() >= r.nextAsk():
			return nil, nil
		}
		if l, room, err := r.pollStore(ctx); err != nil { //mutant:cancelled-look-withdrawn-while
			return nil, err // run has the claim withdrawn
		} else if l != nil || room {
			return l, nil
		}
	}
}

// gaveUp is the error of a wait that its context, or Close, has ended.
func (r *request) gaveUp(err error) error {
	return r.w.gaveUp(err, r.refused, r.away.now(r.e))
}

// pollStore reports whether an ask is worth while; or it returns the lease, if the answer is the grant. An error means that
// the wait is over.
func (r *request) pollStore(ctx context.Context) (l *Lease, room bool, err error) {
	poller, ok := r.e.store.(store.Poller)
	if !ok {
		return nil, true, nil
	}
	claim, of := r.claim, &r.values //mutant:values-of-a-poll
	type poll struct {
		a    store.Answer
		sent clock.Instant
		err  error
	}
	out, err := run(r, ctx, func(stop <-chan struct{}) (out poll) {
		defer r.e.polls.enter(r.e, stop)()
		if ended(stop) {
			return out // which nobody reads
		}
		out.sent = r.e.now()
		r.e.bounded(of, longestCall, func(ctx context.Context) { out.a, out.err = poller.Poll(ctx, claim) })
		return out
	})
	a := &out.a
	switch {
	case err != nil:
		return nil, false, r.gaveUp(err)
	case out.err != nil:
		return nil, store.Definite(out.err), nil
	case a.Granted:
		// A minimum hold has to be shown first, what nobody renews is to last for longer, and what comes too late is asked for again.
		if a.From == 0 || r.claim.MinHold > 0 || r.s.NoRenew || r.e.deadlineOf(a.From, a.TTL) <= r.e.now() { //mutant:poll-spares-minimum-hold
			return nil, true, nil
		}
		if err := ctx.Err(); err != nil { // after its end nothing is granted
			r.withdraw()
			return nil, false, r.gaveUp(err)
		}
		l, err = r.lease(a.Token, a.N, a.From, a.TTL, r.s.renewAfter(a.TTL))
		return l, false, err
	case a.From != 0: // a session keeps the position, which is there: no ask need say so //mutant:poll-tells-of-the-position
		r.refuse(a, out.sent)
		r.e.queues.answered(r.p, r.refused, r.queued, r.notified, r.claim.GiveUp) //mutant:poll-tells-those-in-line
		r.tellWaiting(a)
	default:
		r.moved(a)
		r.tellWaiting(a)
	}
	return nil, false, nil
}

// grantedBy makes a lease of a notification that carries the grant, if it may be used
// without asking: its token is newer than all that the newest answer knew, so
// it is not about an earlier grant; and half of the position's time, which is all
// that the store has granted, is left. The lease counts from when the position does:
// from the sending of the ask for it, or, where a session keeps it, from the session's
// last renewal before. A minimum hold has to be shown first, and what
// is not renewed, or has no deadline, needs more than that time.
func (r *request) grantedBy(h *store.Notification) (*Lease, error) {
	fresh := h.Token > r.refused.answer.Last && r.e.now() < r.since.Add(r.lasts/2)         //mutant:hint-old-token-grants
	if h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.s.NoRenew || r.e.endless { //mutant:hint-spares-minimum-hold
		return nil, nil
	}
	return r.lease(h.Token, h.N, r.since, r.lasts, r.lasts/3) //mutant:hint-counts-arrival
}

// ask asks once and reads the answer: a lease, or an error, or neither if it is
// refused.
func (r *request) ask(ctx context.Context) (*Lease, error) {
	for again := 0; ; again++ {
		if err := ctx.Err(); err != nil { // it ended in the local queue, or while we subscribed
			if r.queued || r.asked {
				r.withdraw()
			}
			return nil, r.gaveUp(err)
		}
		if r.queued && r.e.now() >= r.sent.Add(r.s.positionTTL) { //mutant:place-lapsed-asked-old
			r.newID() // the position has lapsed
		}
		r.claim.GiveUp = r.e.queues.asks(r.p, r.w)
		r.isLast()
		if r.e.endless {
			r.orphans = r.e.sched.orphaned()
		}
		out, err := run(r, ctx, r.op().do)
		if err == errOutage {
			r.outage = r.p.met
			return nil, r.w.errorf(indeterminate(r.outage))
		}
		if err != nil {
			return nil, r.gaveUp(err)
		}
		if answered(out.err) {
			r.away.from = 0
		}
		switch {
		case errors.Is(out.err, store.ErrLost) && again < 3:
			r.newID()
			continue
		case errors.Is(out.err, store.ErrLost):
			return nil, r.w.errorf(fmt.Errorf("%w: the store drops our queue position again and again", store.ErrUnavailable))
		case errors.Is(out.err, store.ErrContended) && r.stays: //mutant:lost-races-are-no-outage
			r.asked, again = true, -1
			if r.claim.Try {
				r.queue(ctx)
			}
			continue
		case out.err != nil:
			if r.queued || r.claim.MinHold > 0 || !store.Definite(out.err) { // something may be there //mutant:unclear-ask-withdrawn
				r.withdraw()
			}
			if store.Definite(out.err) {
				return nil, r.w.errorf(indeterminate(out.err))
			}
			if err := ctx.Err(); err != nil {
				return nil, r.w.gaveUp(err, r.refused, out.err)
			}
			r.outage = out.err
			return nil, r.w.errorf(indeterminate(out.err))
		}
		if !out.answer.Granted {
			r.refuse(&out.answer, out.sent)
			r.queued = !r.claim.Try
			return nil, nil
		}
		if err := ctx.Err(); err != nil { // after its end nothing is granted //mutant:answer-grants-after-end
			r.withdraw()
			return nil, r.gaveUp(err)
		}
		from := out.sent
		if out.answer.From != 0 { //mutant:instant-answer-used
			from = out.answer.From
		}
		if !r.e.desc.InProcess && r.e.deadlineOf(from, out.answer.TTL) <= r.e.now() { //mutant:grant-comes-too-late
			// The answer came when our time was over.
			if again < 3 {
				continue
			}
			r.withdraw()
			return nil, r.w.errorf(fmt.Errorf("%w: its answers take longer than the TTL, %v", store.ErrUnavailable, r.s.TTL))
		}
		return r.lease(out.answer.Token, out.answer.N, from, out.answer.TTL, r.s.renewAfter(out.answer.TTL))
	}
}

// lease makes the lease of what was granted with n tokens from token on.
func (r *request) lease(token int64, n int, from clock.Instant, ttl, renew time.Duration) (*Lease, error) {
	granted := store.Hold{Name: r.claim.Name, ID: r.claim.ID, Token: token, Used: token, Announce: r.claim.Announce} //mutant:leader-announces
	return r.leaseOf(granted, n, from, ttl, renew)
}

// leaseOf makes the lease, the first of n that may have the hold, which holds for
// ttl from the instant on and is to be renewed when the duration renew of it is
// gone. If the locker was closed meanwhile it is given back.
func (r *request) leaseOf(granted store.Hold, n int, from clock.Instant, ttl, renew time.Duration) (*Lease, error) {
	h := &hold{Hold: granted, e: r.e, s: r.s, limit: r.claim.Limit, granted: ttl, orphans: r.orphans} //mutant:losses-counted-grant-read
	if n = min(n, r.claim.Block); n > 1 {                                                             //mutant:block-large-may
		now := r.e.now()
		h.handOver = handOver{left: n - 1, since: now, until: now.Add(r.s.HandOver.For), ttl: r.s.TTL, delay: r.s.LockDelay}
	}
	if r.w.part && r.claim.MinHold > 0 {
		h.unshown = &r.claim
	}
	if r.claim.Limit == store.Full && r.claim.Weight == store.Upgradeable {
		h.changer = newChanger(h, r.w)
	}
	l := h.lease(r.w, granted.Used, r.values)
	h.values = &l.values
	h.since = r.e.stamp(r.s)
	h.observe(EventGranted, h.since.Sub(r.began), nil) // before the scheduler can tell of its loss
	if !r.e.sched.add(h, r.e.deadlineOf(from, ttl), r.s.renewAt(from, renew)) {
		r.withdraw()
		r.e.leading.end(l) //mutant:leads-though-closed
		h.ended(nil)
		return nil, r.w.errorf(store.ErrClosed)
	}
	h.debug("holdfast: granted")
	return l, nil
}
