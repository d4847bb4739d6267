package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A request is one claim until it is granted. It runs the waiting loop. Its
// operations on the store never overlap.
type request struct {
	pace
	w       *Target
	claim   store.Claim
	began   clock.Instant // when the caller asked; 0 without an observer
	stays   bool          // it waits, so it retries lost races without limit
	queued  bool          // the newest answered ask left a queue position
	asked   bool          // a later ask may have left an entry in the store
	p       *waiter       // in the local queue; nil: the claim bypasses the queue
	away    *trouble      // the failures of the operation under way
	outage  error         // the store's error, if that ended the wait
	past    bool          // it is counted in localQueues.past
	pos     ahead         // what the observer received last
	values  values        // of the caller's context
	orphans uint64        // scheduler.orphans before the newest ask
}

// newRequest makes a request for a claim that its local queue has admitted, or that bypasses it (p is nil).
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

// wait asks until the claim is granted or the wait ends.
func (r *request) wait(ctx context.Context) (*Lease, error) {
	r.endsWith(ctx)
	r.stays = true
	// A free name needs no subscription. So if there is none yet, the first ask is a
	// try, and the claim subscribes before it asks for a queue position: then it
	// misses no notification. If the store has no notifications, the try would be wasted.
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

// queue makes the next ask request a queue position.
func (r *request) queue(ctx context.Context) {
	r.e.notifications.subscribe(ctx, r.s) //mutant:asked-before-subscribed
	r.claim.Try, r.claim.Waits = false, false
	r.listen()
}

// pause waits until it is time to ask again: at a notification, or at nextAsk.
// Without notifications it polls, with growing pauses. If a notification or a poll
// brings the grant itself, pause returns the lease.
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
			return nil, err // the claim is already being withdrawn
		} else if l != nil || room {
			return l, nil
		}
	}
}

// gaveUp returns the error of a wait that its context or Close has ended.
func (r *request) gaveUp(err error) error {
	return r.w.gaveUp(err, r.refused, r.away.now(r.e))
}

// pollStore polls the store. It returns the lease if the answer is the grant; otherwise room reports whether to ask now.
// An error ends the wait.
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
			return out // nobody reads it
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
		// Ask if the claim would fit but is not granted yet (From is 0), if the token must be shown first (MinHold),
		// if the hold is not renewed and so must last longer (NoRenew), or if the answer came too late.
		if a.From == 0 || r.claim.MinHold > 0 || r.s.NoRenew || r.e.deadlineOf(a.From, a.TTL) <= r.e.now() { //mutant:poll-spares-minimum-hold
			return nil, true, nil
		}
		if err := ctx.Err(); err != nil { // nothing is granted after ctx has ended
			r.withdraw()
			return nil, false, r.gaveUp(err)
		}
		l, err = r.lease(a.Token, a.N, a.From, a.TTL, r.s.renewAfter(a.TTL))
		return l, false, err
	case a.From != 0: // a session keeps the position, so no ask is needed to confirm it //mutant:poll-tells-of-the-position
		r.refuse(a, out.sent)
		r.e.queues.answered(r.p, r.refused, r.queued, r.notified, r.claim.GiveUp) //mutant:poll-tells-those-in-line
		r.tellWaiting(a)
	default:
		r.moved(a)
		r.tellWaiting(a)
	}
	return nil, false, nil
}

// grantedBy makes a lease from a notification that carries the grant, or returns nil
// if an ask is needed. The token must be newer than all tokens known to the newest
// answer: an older one belongs to an earlier grant. The store has granted only the
// position's time, and half of that must be left. The lease counts from the same
// instant as the position: from when its ask was sent or, if a session keeps it, from
// the session's last renewal before that. A minimum hold needs an ask, as its token
// must be shown first. A hold that is not renewed, or has no deadline, must last longer.
func (r *request) grantedBy(h *store.Notification) (*Lease, error) {
	fresh := h.Token > r.refused.answer.Last && r.e.now() < r.since.Add(r.lasts/2)         //mutant:hint-old-token-grants
	if h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.s.NoRenew || r.e.endless { //mutant:hint-spares-minimum-hold
		return nil, nil
	}
	return r.lease(h.Token, h.N, r.since, r.lasts, r.lasts/3) //mutant:hint-counts-arrival
}

// ask asks once. It returns a lease, an error, or neither if the claim is refused.
func (r *request) ask(ctx context.Context) (*Lease, error) {
	for again := 0; ; again++ {
		if err := ctx.Err(); err != nil { // ctx ended in the local queue, or during the subscription
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
			if r.queued || r.claim.MinHold > 0 || !store.Definite(out.err) { // an entry may be left in the store //mutant:unclear-ask-withdrawn
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
		if err := ctx.Err(); err != nil { // nothing is granted after ctx has ended //mutant:answer-grants-after-end
			r.withdraw()
			return nil, r.gaveUp(err)
		}
		from := out.sent
		if out.answer.From != 0 { //mutant:instant-answer-used
			from = out.answer.From
		}
		if !r.e.desc.InProcess && r.e.deadlineOf(from, out.answer.TTL) <= r.e.now() { //mutant:grant-comes-too-late
			// The answer came after the deadline.
			if again < 3 {
				continue
			}
			r.withdraw()
			return nil, r.w.errorf(fmt.Errorf("%w: its answers take longer than the TTL, %v", store.ErrUnavailable, r.s.TTL))
		}
		return r.lease(out.answer.Token, out.answer.N, from, out.answer.TTL, r.s.renewAfter(out.answer.TTL))
	}
}

// lease makes the lease of a grant of n tokens, the first of which is token.
func (r *request) lease(token int64, n int, from clock.Instant, ttl, renew time.Duration) (*Lease, error) {
	granted := store.Hold{Name: r.claim.Name, ID: r.claim.ID, Token: token, Used: token, Announce: r.claim.Announce} //mutant:leader-announces
	return r.leaseOf(granted, n, from, ttl, renew)
}

// leaseOf makes the first of at most n leases that have the hold one after another.
// The hold lasts for ttl from the instant from; its first renewal is due at from +
// renew. If the engine was closed meanwhile, the hold is given back.
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
	h.observe(EventGranted, h.since.Sub(r.began), nil) // before the scheduler can report its loss
	if !r.e.sched.add(h, r.e.deadlineOf(from, ttl), r.s.renewAt(from, renew)) {
		r.withdraw()
		r.e.leading.end(l) //mutant:leads-though-closed
		h.ended(nil)
		return nil, r.w.errorf(store.ErrClosed)
	}
	h.debug("holdfast: granted")
	return l, nil
}
