package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// reenter looks at the leases that ctx comes from. It returns another lease of
// the hold of one of them, if that was asked for and the lease covers the target;
// else ErrDeadlock if they are in the target's way, as its caller would wait for
// itself; else neither. If one is lost, ctx has ended afterwards.
func (w *Target) reenter(ctx context.Context) (*Lease, error) {
	var blocking *Lease
	own, least := int64(0), w.limit
	first := chainOf(ctx)
	for ls := first; ls != nil; ls = ls.outer {
		l := ls.lease
		if l.hold.e != w.l.e || l.hold.Name != w.name || ls.again(first) {
			continue
		}
		if !l.Valid() { //mutant:released-enters-again
			// The timer that ends ctx may be late: what is claimed under a lost lease is not to become a new hold.
			l.hold.checkClock() //mutant:lost-claims-afresh
			continue
		}
		if w.l.s.Reentrant && l.covers(w) { //mutant:entered-again-though-nobody
			if again := l.again(w); again != nil {
				return again, nil
			}
			if !l.Valid() {
				continue // it was released just now
			}
		}
		own += l.weight.Load()
		least = min(least, l.hold.limit) // what is held fits under the total of each who holds //mutant:own-total-alone-blocks
		if w.limit == store.Full || own+w.weight > least {
			blocking = l
		}
	}
	if blocking == nil {
		return nil, nil
	}
	do := "release that first"
	switch {
	case blocking.covers(w):
		do = "Options.Reentrant lets it enter again under that"
	case blocking.hold.changer != nil && w.weight == store.Full:
		do = "upgrade that first"
	}
	return nil, w.blocksItself(blocking, do)
}

// blocksItself is the error of a target whose own context has the lease, and what
// to do about it.
func (w *Target) blocksItself(l *Lease, do string) error {
	return w.errorf(fmt.Errorf("%w: its context is that of %s, token %d, for which it would wait; %s",
		store.ErrDeadlock, l.what(), l.Token(), do))
}

// covers reports whether who has the lease has all that the target asks for: a
// write lock covers a write and a read lock, an upgradeable read lock that and a
// read lock, and a write lock too while it is upgraded; a read lock covers a
// read lock. Slots cover nothing: two more are two more.
func (l *Lease) covers(w *Target) bool {
	if w.limit != store.Full || l.hold.limit != store.Full || w.weight > l.weight.Load() { //mutant:read-lease-covers-write
		return false
	}
	return w.weight != store.Upgradeable || l.hold.changer != nil //mutant:write-lock-covers-upgradeable
}

// again makes one more lease of the hold, or returns nil if the lease is over,
// or covers the target no more.
func (l *Lease) again(w *Target) *Lease {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state != held || !l.covers(w) { //mutant:released-enters-again-too
		return nil
	}
	return h.lease(w, l.token, l.values)
}

// what names the lease in an error.
func (l *Lease) what() string {
	switch {
	case l.hold.limit != store.Full:
		return fmt.Sprintf("a lease of %d slots of the same name", l.weight.Load())
	case l.hold.changer != nil:
		return "an upgradeable read lock of the same name"
	case l.weight.Load() == store.Full:
		return "a lock of the same name"
	}
	return "a read lock of the same name"
}
