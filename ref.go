package holdfast

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// A Ref is a hold on its way from the process that detached it to the one that
// adopts it. Its text can be passed by any means: it has no blanks and no
// control characters. Any process that has it, and may use the store, can adopt
// the hold, once.
type Ref struct {
	Name  string // what is held
	ID    string // as `holdfast ls` shows it meanwhile
	Token int64  // the fencing token of the lease, which stays
	// Expires is until when it can be adopted, by the clock of the machine that
	// detached it. The store decides, by its own clock.
	Expires time.Time

	grant         int64 // the token of the grant: the identity of the hold
	limit, weight int64
}

// refForm is what the text of a Ref begins with.
const refForm = "1"

// String returns the text that UnmarshalText reads.
func (r Ref) String() string {
	return strings.Join([]string{
		refForm, r.ID, strconv.FormatInt(r.grant, 10), strconv.FormatInt(r.Token, 10),
		strconv.FormatInt(r.limit, 10), strconv.FormatInt(r.weight, 10),
		r.Expires.UTC().Format(time.RFC3339Nano), url.PathEscape(r.Name),
	}, "/")
}

// MarshalText returns the text of the Ref, as [Ref.String] does, so that encoding/json
// keeps a Ref as that text.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [Ref.String] wrote. The error matches ErrInvalid, and r is
// unchanged then.
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

// Detach ends the lease for this process and leaves the name taken, so that
// another process can go on with the work under the same token: it passes the Ref
// to [Locker.Adopt]. As soon as Detach is called, Valid is false and the contexts
// have ended with ErrReleased. The hold lasts for one more TTL, and no longer
// depends on this process: this process may end, and its Locker be closed. The
// hold is not renewed until it is adopted. Like Release it takes no context and
// is bounded.
//
// Errors: ErrUnsupported if the store cannot detach a hold from its process, and
// ErrInvalid for an upgradeable lease, and while other leases of the same hold
// are held (Options.Reentrant): the lease goes on then. ErrLost, ErrReleased,
// ErrClosed if it had ended before; ErrUnavailable if the outcome is unknown:
// then the lease has ended, and the name is free after the TTL.
func (l *Lease) Detach() (Ref, error) {
	r, err := l.engine().Detach()
	return Ref{
		Name: r.Name, ID: r.ID, Token: r.Token, Expires: r.Expires, grant: r.Grant, limit: r.Limit, weight: r.Weight,
	}, err
}

// Adopt takes over a hold that another process, or this one, has detached. The token
// stays; the TTL, the owner and how it is renewed are this Locker's, and its MaxHold
// counts from now. ctx bounds the waiting for the store's answer: if it ends before,
// the adopted hold is released.
//
// A hold can be adopted once: a second Adopt gets ErrLost, as does one that comes after
// the hold has expired. The other errors: ErrInvalid if the ref is not one,
// ErrUnsupported, ErrUnavailable if the outcome is unknown (then what may have been
// adopted is given back), ErrDenied, ErrCorrupt, ErrClosed, and the context's.
func (l *Locker) Adopt(ctx context.Context, ref Ref) (*Lease, error) {
	lease, err := l.engine.Adopt(ctx, engine.Ref{
		Name: ref.Name, ID: ref.ID, Token: ref.Token, Expires: ref.Expires, Grant: ref.grant, Limit: ref.limit, Weight: ref.weight,
	})
	return (*Lease)(lease), err
}

// Release gives back a hold that another process, or this one, has detached, for a
// process that has no more work to do under it. Then the name is free; a minimum hold
// counts as for [Lease.Release]. ctx bounds the adoption, which comes first. The errors
// are those of [Locker.Adopt] and of [Lease.Release].
func (l *Locker) Release(ctx context.Context, ref Ref) error {
	lease, err := l.Adopt(ctx, ref)
	if err != nil {
		return err
	}
	return lease.Release() //mutant:detached-given-back
}
