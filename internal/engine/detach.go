package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A Ref identifies a detached hold, for the process that adopts it.
type Ref struct {
	Name    string
	ID      string
	Token   int64 // of the lease
	Expires time.Time
	Grant   int64 // the token of the grant: the identity of the hold
	Limit   int64
	Weight  int64
}

// errDetached is the reason for the end of a detached lease.
var errDetached = fmt.Errorf("%w: it was detached, for another process to adopt", store.ErrReleased)

// Detach ends the lease here but keeps the hold in the store, for Adopt.
func (l *Lease) Detach() (Ref, error) {
	h := l.hold
	if why, lacks := h.e.desc.Lacks[store.PromiseDetach]; lacks {
		return Ref{}, l.errorf(fmt.Errorf("%w: detach: %s", store.ErrUnsupported, why))
	}
	if !h.e.enter() {
		return Ref{}, l.errorf(store.ErrClosed)
	}
	defer h.e.work.Done()
	h.checkClock() //mutant:detached-clock-too-late
	if err := h.endDetached(l); err != nil {
		return Ref{}, l.errorf(err)
	}
	h.e.queues.drop(h) //mutant:waited-detached
	ref, err := h.detach()
	h.ended(err)
	if err != nil {
		return Ref{}, l.errorf(err)
	}
	ref.Token, ref.Weight = l.Token(), l.weight.Load() //mutant:detached-token-grant
	return ref, nil
}

// endDetached ends the hold and its only lease.
func (h *hold) endDetached(l *Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state != held {
		return l.why
	}
	if h.changer != nil {
		return fmt.Errorf("%w: detach: an upgradeable lease counts its upgrades here", store.ErrInvalid)
	}
	if h.users > 1 { //mutant:detached-under-another-lease
		return fmt.Errorf("%w: detach: there are other leases of the same hold: release those first", store.ErrInvalid)
	}
	l.left, h.users = true, 0
	h.done, h.leases = true, nil
	l.finish(released, errDetached) //mutant:detached-still-valid
	return nil
}

// detach gives the hold, which has no lease here any more, an id of the zero
// Process, so that it belongs to no process.
func (h *hold) detach() (Ref, error) {
	flight, _ := h.e.sched.remove(h) //mutant:detached-still-renewed
	if flight != nil {
		<-flight
	}
	if h.reported != nil {
		return Ref{}, h.reported
	}
	asked := h.Hold
	asked.TTL, asked.NewID = h.s.TTL, store.Process{}.NewID()                               //mutant:detached-nobody
	answer, from := h.e.renewOne(h.values, nil, h.s.releaseFor(), nil, asked, new(trouble)) //mutant:values-of-a-detach
	if err := answer.Err; err != nil {
		if store.Definite(err) && !errors.Is(err, store.ErrLost) {
			_ = h.sendRelease() // it still has its old id in the store //mutant:refused-detach-keeps-name
		}
		return Ref{}, err
	}
	return Ref{
		Name: h.Name, ID: asked.NewID.String(), Grant: h.Token, Limit: h.limit,
		Expires: time.Now().Add(h.e.deadlineOf(from, answer.TTL).Sub(h.e.now())),
	}, nil
}

// Adopt takes over a detached hold.
func (l *Locker) Adopt(ctx context.Context, ref Ref) (*Lease, error) {
	w := &Target{l: l, name: ref.Name, limit: ref.Limit, weight: ref.Weight, verb: "adopt"}
	if err := w.check(); err != nil {
		return nil, err
	}
	id, err := store.ParseID(ref.ID)
	if err != nil || ref.Grant < 1 || ref.Token < ref.Grant {
		return nil, w.errorf(fmt.Errorf("%w: what Detach returned is needed, this is %+v", store.ErrInvalid, ref))
	}
	if why, lacks := l.e.desc.Lacks[store.PromiseDetach]; lacks {
		return nil, w.errorf(fmt.Errorf("%w: %s", store.ErrUnsupported, why))
	}
	if err := ctx.Err(); err != nil {
		return nil, w.errorf(err)
	}
	if !l.e.claims() {
		return nil, w.errorf(store.ErrClosed)
	}
	defer l.e.work.Done()
	l.e.begin(l.s)
	r := newRequest(ctx, w, l.e.stamp(l.s), nil)
	r.claim.Announce = true // a Ref does not say whether its hold is of an election //mutant:adoption-announces
	hold := store.Hold{     //mutant:adopted-time-had
		Name: ref.Name, ID: id, Token: ref.Grant, TTL: l.s.TTL, Used: ref.Token, Owner: l.s.owner, NewID: r.claim.ID, Announce: r.claim.Announce,
	}
	lease, err := r.adopt(ctx, hold)
	return lease, r.failed(err)
}

// adopt renews the hold. The renewal gives it the id of the request.
func (r *request) adopt(ctx context.Context, hold store.Hold) (*Lease, error) {
	o := r.op()
	var from clock.Instant
	answer, err := run(r, ctx, func(stop <-chan struct{}) (answer store.Renewal) {
		worthIt := o.worthIt()                                                  //mutant:adopt-closed-port
		answer, from = o.e.renewOne(o.of, worthIt, o.bound, stop, hold, r.away) //mutant:values-of-an-adoption
		return answer
	})
	if err != nil {
		return nil, r.gaveUp(err)
	}
	switch err := answer.Err; {
	case errors.Is(err, store.ErrLost):
		return nil, r.w.errorf(fmt.Errorf("%w: it has expired, or was adopted before", err))
	case err != nil:
		if !store.Definite(err) { //mutant:unclear-adoption-left
			r.withdraw()
		}
		return nil, r.w.errorf(indeterminate(err))
	}
	if !r.e.desc.InProcess && r.e.deadlineOf(from, answer.TTL) <= r.e.now() {
		r.withdraw()
		return nil, r.w.errorf(fmt.Errorf("%w: its answer took longer than the TTL, %v", store.ErrUnavailable, r.s.TTL))
	}
	adopted := store.Hold{Name: hold.Name, ID: hold.NewID, Token: hold.Token, Used: hold.Used, Announce: hold.Announce}
	return r.leaseOf(adopted, 1, from, answer.TTL, r.s.renewAfter(answer.TTL))
}
