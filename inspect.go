package holdfast

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Status is the holders and waiters of a name at the time of the read. It may
// have changed since: only a lease and its token protect a resource.
type Status struct {
	Name    string   // of the lock or semaphore
	Slots   int      // of a semaphore, the smallest if several are in use; of a lock 0
	Holders []Holder // the holders, including ended ones that keep the name taken
	Waiters []Waiter // in the order in which they will be served
	Freed   []Holder // broken with Break.Now: they block no claim, and are listed until their owners learn of it or they expire
}

// A Waiter is a claim that has a position in the queue of a name. Of the claims
// that exclude each other, a process has one there; the others wait in the
// process.
type Waiter struct {
	Owner
	ID     string // of the claim
	Mode   Mode   // the mode that it asks for
	Slots  int    // of a semaphore; of a lock 0
	GiveUp string // why it asks the holders to give up ([Options.AskToGiveUp]); empty: it does not
}

// String returns the owner, and why it asks the holders to give up if it does, on one line.
func (w Waiter) String() string {
	if w.GiveUp == "" {
		return w.Owner.String()
	}
	return fmt.Sprintf("%v, asks to give up: %q", w.Owner, w.GiveUp)
}

// Look returns the holders and waiters of the name. For a free name the Status is
// empty. It writes nothing.
//
// Errors: one that matches the error of ctx, ErrInvalid of a bad name,
// ErrUnsupported if the store cannot list holders, ErrUnavailable, ErrDenied,
// ErrCorrupt and ErrClosed.
func (l *Locker) Look(ctx context.Context, name string) (Status, error) {
	states, at, err := l.engine.Look(ctx, name)
	if err != nil || len(states) == 0 {
		return Status{Name: name}, err
	}
	return statusOf(&states[0], at), nil
}

// List returns the Status of each name that begins with the prefix and has a
// holder or a waiter, sorted by name. The empty prefix matches all names. It
// reads all names of the store, so it takes long on one with many.
//
// If some names could not be read, it returns the others, and the errors joined.
// The errors are those of [Locker.Look].
func (l *Locker) List(ctx context.Context, prefix string) ([]Status, error) {
	states, at, err := l.engine.List(ctx, prefix)
	all := make([]Status, len(states))
	for i := range states {
		all[i] = statusOf(&states[i], at)
	}
	return all, err
}

func statusOf(st *store.State, at time.Time) Status {
	s := Status{Name: st.Name}
	_, s.Slots = modeOf(st.Limit, st.Limit)
	for i := range st.Entries {
		e := &st.Entries[i]
		switch {
		case e.Freed: //mutant:freed-hold-is-a-holder
			s.Freed = append(s.Freed, holderOf(e, st.Limit, at))
			continue
		case e.Granted:
			s.Holders = append(s.Holders, holderOf(e, st.Limit, at))
			continue
		}
		w := Waiter{Owner: e.Owner, ID: e.ID.String(), GiveUp: e.GiveUp}
		w.Mode, w.Slots = modeOf(e.Weight, st.Limit)
		s.Waiters = append(s.Waiters, w)
	}
	return s
}

// A Break says which hold to break, and why. ID and Token are those of a
// [Holder]: a hold that was granted meanwhile is never broken.
type Break struct {
	Name  string // what is held
	ID    string // of the hold
	Token int64  // of the hold
	// Reason is why; it may not be empty. The holder gets it with the loss, and others
	// see it as Broken of a [Holder].
	Reason string
	// By names the operator that breaks the hold; it is put before the reason:
	// "alice@web-3: it hangs". Default: the user and the host of this process. By,
	// the ": " and Reason have at most 200 bytes together.
	By string
	// Now grants the name to the next waiter at once. The old holder learns of it with
	// its next renewal, and works on until then: only the token protects the resource.
	// Redlock then does not keep the reason: the lease is lost without one.
	Now bool
}

// Break takes a hold away from its holder. The lease is lost with its next renewal, and
// the error says who broke it and why. The next waiter is granted the name when the hold
// has expired and its LockDelay has passed: a holder that checks its lease has stopped
// by then. With b.Now the next waiter is granted the name at once.
//
// Errors: ErrInvalid of a bad argument, ErrLost if there is no such hold, and those of
// [Locker.Look]. After ErrUnavailable it may be called again.
func (l *Locker) Break(ctx context.Context, b Break) error {
	bad := func(what string, args ...any) error {
		return fmt.Errorf("break %.100q: %w: %s", b.Name, ErrInvalid, fmt.Sprintf(what, args...))
	}
	id, err := store.ParseID(b.ID)
	if b.By == "" {
		b.By = thisUser() //mutant:break-by-this-user
	}
	text := b.By + ": " + b.Reason         //mutant:break-says-who
	line := store.OneLine(text, len(text)) //mutant:break-on-one-line
	switch {
	case err != nil:
		return bad("the ID %.100q is none", b.ID)
	case b.Token < 1:
		return bad("the token %d is none", b.Token)
	case b.Reason == "":
		return bad("there is no reason for its holder")
	case len(text) > store.MaxReason:
		return bad("%q has %d bytes, at most %d are kept", text, len(text), store.MaxReason)
	}
	return l.engine.Break(ctx, store.Break{Name: b.Name, ID: id, Token: b.Token, Reason: line, Now: b.Now})
}

// thisUser returns the user and the host of this process.
var thisUser = sync.OnceValue(func() string {
	name := fmt.Sprint("uid ", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + ThisProcess().Host
})

// Held returns the leases that this process holds through this Locker and all
// that With returned, sorted by name.
func (l *Locker) Held() []*Lease {
	held := l.engine.Held()
	all := make([]*Lease, len(held))
	for i, lease := range held {
		all[i] = (*Lease)(lease)
	}
	return all
}
