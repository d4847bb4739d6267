package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A Ref is a hold on its way from the process that has detached it to the one
// that adopts it. As text it can go by any way: it has no blanks and no control
// characters. Whoever has it, and may use the store, can adopt the hold, once.
type Ref struct {
	Name  string
	ID    string // as `holdfast ls` shows it meanwhile
	Token int64  // the fencing token of the lease, which stays
	// Expires is when it is too late to adopt it, by the clock of the machine
	// that detached it. The store decides, by its own.
	Expires time.Time

	grant         int64 // the token of the grant: the identity of the hold
	limit, weight int64
}

// refForm is what the text of a Ref begins with.
const refForm = "1"

// String is the text that UnmarshalText reads.
func (r Ref) String() string {
	return strings.Join([]string{
		refForm, r.ID, strconv.FormatInt(r.grant, 10), strconv.FormatInt(r.Token, 10),
		strconv.FormatInt(r.limit, 10), strconv.FormatInt(r.weight, 10),
		r.Expires.UTC().Format(time.RFC3339Nano), url.PathEscape(r.Name),
	}, "/")
}

// MarshalText is String.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what String wrote. The error matches ErrInvalid.
func (r *Ref) UnmarshalText(text []byte) error {
	bad := func(what string) error {
		return fmt.Errorf("%w: the reference of a hold: %s: %.100q", ErrInvalid, what, text)
	}
	parts := strings.Split(string(text), "/")
	if len(parts) != 8 {
		return bad("it has not 8 parts")
	}
	if parts[0] != refForm { //mutant:any-text-ref
		return bad("of a form that this version does not know")
	}
	read := Ref{ID: parts[1]}
	if _, err := store.ParseID(read.ID); err != nil {
		return bad("no id in it")
	}
	for i, n := range []*int64{&read.grant, &read.Token, &read.limit, &read.weight} {
		var err error
		if *n, err = strconv.ParseInt(parts[2+i], 10, 64); err != nil || *n < 1 {
			return bad("a number is none")
		}
	}
	var err error
	if read.Expires, err = time.Parse(time.RFC3339Nano, parts[6]); err != nil {
		return bad("no time in it")
	}
	if read.Name, err = url.PathUnescape(parts[7]); err != nil {
		return bad("no name in it")
	}
	*r = read
	return nil
}

// errDetached is why a lease that was detached is over.
var errDetached = fmt.Errorf("%w: it was detached, for another process to adopt", ErrReleased)

// Detach ends the lease for this process and leaves the name taken, so that
// another process can go on with the work under the same token: it gives the
// Ref to [Locker.Adopt]. From its first moment Valid is false, and the contexts
// have ended with ErrReleased. The hold lasts for one more TTL, and no longer
// depends on this process: it may end, and its Locker be closed. Nobody renews
// it until it is adopted. Like Release it takes no context and is bounded.
//
// Errors: ErrUnsupported where the store cannot untie a hold from its process,
// and ErrInvalid of an upgradeable lease, and while other leases of the same
// hold are held (Options.Reentrant): the lease goes on then. ErrLost,
// ErrReleased, ErrClosed if it was over before; ErrUnavailable if it is not
// clear: then the lease is over, and the name is free after the TTL.
func (l *Lease) Detach() (Ref, error) {
	h := l.hold
	if why, lacks := h.e.desc.Lacks[store.PromiseDetach]; lacks {
		return Ref{}, l.errorf(fmt.Errorf("%w: detach: %s", ErrUnsupported, why))
	}
	if !h.e.enter() {
		return Ref{}, l.errorf(ErrClosed)
	}
	defer h.e.work.Done()
	h.lookAtTheClock() //mutant:detached-clock-too-late
	if err := h.endDetached(l); err != nil {
		return Ref{}, l.errorf(err)
	}
	h.e.gates.drop(h) //mutant:waited-detached
	ref, err := h.detach()
	h.ended(err)
	if err != nil {
		return Ref{}, l.errorf(err)
	}
	ref.Token, ref.weight = l.Token(), l.weight.Load() //mutant:detached-token-grant
	return ref, nil
}

// endDetached makes the hold and its one lease over.
func (h *hold) endDetached(l *Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state != held {
		return l.why
	}
	if h.changer != nil {
		return fmt.Errorf("%w: detach: an upgradeable lease counts its upgrades here", ErrInvalid)
	}
	if h.users > 1 { //mutant:detached-under-another-lease
		return fmt.Errorf("%w: detach: there are other leases of the same hold: release those first", ErrInvalid)
	}
	l.left, h.users = true, 0
	h.done, h.leases = true, nil
	l.finish(released, errDetached) //mutant:detached-still-valid
	return nil
}

// detach gives the hold, of which nobody here has a lease any more, an id that
// is of no process.
func (h *hold) detach() (Ref, error) {
	flight, _ := h.e.sched.remove(h) //mutant:detached-still-renewed
	if flight != nil {
		<-flight
	}
	if h.told != nil {
		return Ref{}, h.told
	}
	asked := h.Hold
	asked.TTL, asked.NewID = h.s.TTL, store.Process{}.NewID() //mutant:detached-nobody
	answer, from := h.e.renewOne(h.s.releaseFor(), nil, asked, new(trouble))
	if err := answer.Err; err != nil {
		if store.Definite(err) && !errors.Is(err, ErrLost) {
			_ = h.sendRelease() // it is there as it was //mutant:refused-detach-keeps-name
		}
		return Ref{}, err
	}
	return Ref{
		Name: h.Name, ID: asked.NewID.String(), grant: h.Token, limit: h.limit,
		Expires: time.Now().Add(h.e.deadlineOf(from, answer.TTL).Sub(h.e.now())),
	}, nil
}

// Adopt goes on with a hold that another process, or this one, has detached.
// The token stays; the TTL, the owner and how it is renewed are this Locker's,
// and its MaxHold counts from now. ctx bounds the waiting for the store's
// answer: if it ends before, what was adopted is given back.
//
// Only one can adopt a hold, once: a second one gets ErrLost, as does one who
// comes when its time is over. Errors besides that: ErrInvalid if the ref is
// none, ErrUnsupported, ErrUnavailable if it is not clear (then what may have
// been adopted is given back), ErrDenied, ErrCorrupt, ErrClosed, and the
// context's.
func (l *Locker) Adopt(ctx context.Context, ref Ref) (*Lease, error) {
	w := &want{l: l, name: ref.Name, limit: ref.limit, weight: ref.weight, verb: "adopt"}
	if err := w.check(); err != nil {
		return nil, err
	}
	id, err := store.ParseID(ref.ID)
	if err != nil || ref.grant < 1 || ref.Token < ref.grant {
		return nil, w.errorf(fmt.Errorf("%w: what Detach returned is needed, this is %+v", ErrInvalid, ref))
	}
	if why, lacks := l.e.desc.Lacks[store.PromiseDetach]; lacks {
		return nil, w.errorf(fmt.Errorf("%w: %s", ErrUnsupported, why))
	}
	if err := ctx.Err(); err != nil {
		return nil, w.errorf(err)
	}
	if !l.e.claims() {
		return nil, w.errorf(ErrClosed)
	}
	defer l.e.work.Done()
	l.e.begin(l.s)
	r := newRequest(w, l.e.stamp(l.s), nil)
	hold := store.Hold{ //mutant:adopted-time-had
		Name: ref.Name, ID: id, Token: ref.grant, TTL: l.s.TTL, Used: ref.Token, Owner: l.s.owner, NewID: r.claim.ID,
	}
	lease, err := r.adopt(ctx, hold)
	return lease, w.failed(r.began, err)
}

// adopt renews the hold, which gets the id of the request by that.
func (r *request) adopt(ctx context.Context, hold store.Hold) (*Lease, error) {
	o := r.op()
	var from clock.Instant
	answer, err := run(r, ctx, func(stop <-chan struct{}) (answer store.Renewal) {
		answer, from = o.e.renewOne(o.bound, stop, hold, r.away)
		return answer
	})
	if err != nil {
		return nil, r.gaveUp(err)
	}
	switch err := answer.Err; {
	case errors.Is(err, ErrLost):
		return nil, r.w.errorf(fmt.Errorf("%w: its time was over, or it was adopted before", err))
	case err != nil:
		if !store.Definite(err) { //mutant:unclear-adoption-left
			r.withdraw()
		}
		return nil, r.w.errorf(unclear(err))
	}
	if !r.e.desc.InProcess && r.e.deadlineOf(from, answer.TTL) <= r.e.now() {
		r.withdraw()
		return nil, r.w.errorf(fmt.Errorf("%w: its answer took longer than the TTL, %v", ErrUnavailable, r.s.TTL))
	}
	adopted := store.Hold{Name: hold.Name, ID: hold.NewID, Token: hold.Token, Used: hold.Used}
	return r.leaseOf(adopted, 1, from, answer.TTL, r.s.renewAfter(answer.TTL))
}
