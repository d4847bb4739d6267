package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A byHand is a call of Renew that waits for its answer. The scheduler's lock
// guards it.
type byHand struct {
	hold  *hold
	ttl   time.Duration
	until clock.Instant // the deadline if ttl counts from the call
	done  chan struct{} // closed when the hold is renewed
	err   error         // why the last try was indeterminate
	gone  bool          // its caller no longer waits
}

// never is the renewal time of a hold under NoRenew, and the deadline of a hold
// without one.
const never = clock.Instant(math.MaxInt64)

// renewAt returns when to renew a hold automatically: at from + after, or never
// under NoRenew.
func (s *settings) renewAt(from clock.Instant, after time.Duration) clock.Instant {
	if s.NoRenew { //mutant:norenew-renews
		return never
	}
	return from.Add(after)
}

// Renew renews the lease now, so that it lasts for ttl from the sending of the
// request. It returns when the store has answered.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	return renewTogether(ctx, ttl, l)[0]
}

// renewTogether is Renew for several leases of one engine. They share calls to the
// store where possible.
func renewTogether(ctx context.Context, ttl time.Duration, leases ...*Lease) []error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(leases))
	calls, under := make([]*byHand, 0, len(leases)), make([]context.Context, len(leases))
	for i, l := range leases {
		if under[i], errs[i] = l.toRenew(ctx, waiting, ttl); errs[i] == nil {
			calls = append(calls, &byHand{hold: l.hold, ttl: ttl, done: make(chan struct{})})
		}
	}
	leases[0].hold.e.sched.byHand(calls...) //mutant:several-renewed-in-one-call
	for i, l := range leases {
		if errs[i] == nil {
			errs[i] = l.renewed(ctx, under[i], calls[0])
			calls = calls[1:]
		}
	}
	return errs
}

// toRenew returns a context that ends with the lease or with waiting, or the reason
// why the lease cannot be renewed for ttl.
func (l *Lease) toRenew(ctx, waiting context.Context, ttl time.Duration) (context.Context, error) {
	h := l.hold
	if h.e.endless { //mutant:renewed-hand-ever
		return nil, l.errorf(fmt.Errorf("%w: renew: %s", store.ErrUnsupported, h.e.desc.Lacks[store.PromiseDeadline]))
	}
	if d := &h.e.desc; ttl < d.MinTTL || ttl > d.MaxTTL { //mutant:renewed-any-time
		return nil, l.errorf(fmt.Errorf("%w: renew for %v: this store allows %v to %v", store.ErrInvalid, ttl, d.MinTTL, d.MaxTTL))
	}
	if err := ctx.Err(); err != nil {
		return nil, l.errorf(err)
	}
	h.checkClock() //mutant:clock-looked-before-renewal
	h.mu.Lock()
	under, why := l.join(waiting), l.why
	h.mu.Unlock()
	if why != nil {
		return nil, l.errorf(why)
	}
	return under, nil
}

// renewed waits for the outcome of the call.
func (l *Lease) renewed(ctx, under context.Context, call *byHand) error {
	h := l.hold
	select {
	case <-call.done:
		return nil
	case <-under.Done():
	}
	err := h.e.sched.forget(h, call)
	h.mu.Lock()
	why := l.why
	h.mu.Unlock()
	switch {
	case why == nil && err == nil:
		err = fmt.Errorf("%w: no answer yet, so whether it was renewed is not clear: %w", store.ErrUnavailable, ctx.Err())
	case why == nil:
		err = fmt.Errorf("%w; whether it was renewed is not clear: %w", indeterminate(err), ctx.Err())
	case err == nil:
		err = why
	default:
		err = fmt.Errorf("%w; the last try: %w", why, indeterminate(err))
	}
	return l.errorf(err)
}

// byHand schedules a renewal of each hold, to be sent as soon as no renewal of it is
// under way. A ttl shorter than the time left takes effect at once.
func (s *scheduler) byHand(calls ...*byHand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range calls {
		h := call.hold
		if h.index < 0 {
			continue // it has just ended: its leases report that
		}
		h.renewAt = s.e.now()
		call.until = s.e.deadlineOf(h.renewAt, call.ttl)
		h.calls = append(h.calls, call)
		h.handOver.left = 0                 // the next owner must not get this owner's TTL //mutant:handed-over-time-owner
		h.ends(min(h.deadline, call.until)) //mutant:shorter-renewal-counts-answered
		s.moved(h)
	}
	s.arm()
}

// forget notes that the caller no longer waits. It returns why the last try was
// indeterminate, or nil.
func (s *scheduler) forget(h *hold, call *byHand) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.gone = true //mutant:renewed-left
	if h.flight == nil && h.index >= 0 {
		h.again()
		s.moved(h)
	}
	return call.err
}

// renewFor returns the TTL for a renewal that is sent now: the longest that a call
// of Renew asks for, or that of the options. The scheduler's lock is held.
func (h *hold) renewFor() time.Duration {
	if len(h.calls) == 0 {
		return h.s.TTL
	}
	ttl := time.Duration(0)
	for _, c := range h.calls {
		ttl = max(ttl, c.ttl) //mutant:renewed-hand-options-say
	}
	h.sending, h.calls = h.calls, nil
	return ttl
}

// cut returns the latest deadline allowed by the calls of Renew that came while a
// renewal was under way: the answer to that renewal must not undo them.
func (h *hold) cut() clock.Instant {
	at := never
	for _, c := range h.calls {
		at = min(at, c.until)
	}
	return at
}

// answered completes the calls of Renew that the renewal was for. If the renewal
// failed, they wait for the next one, unless their caller has left. The scheduler's
// lock is held.
func (h *hold) answered(err error, now clock.Instant) {
	for _, c := range h.sending {
		if c.err = err; err == nil {
			close(c.done)
		}
	}
	if err != nil {
		h.calls = append(h.sending, h.calls...) //mutant:unclear-renewal-hand-tried
	} else if len(h.calls) > 0 {
		h.renewAt = now // for the calls that came meanwhile //mutant:call-came-during-renewal
	}
	h.sending = nil
	h.again()
}

// again drops the calls of Renew whose caller has left. Under NoRenew, without calls
// nothing is renewed.
func (h *hold) again() {
	h.calls = slices.DeleteFunc(h.calls, func(c *byHand) bool { return c.gone })
	if h.s.NoRenew && len(h.calls) == 0 {
		h.renewAt, h.retries = never, 0
	}
}
