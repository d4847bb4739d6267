package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// reenter checks the leases from which ctx is derived. If Reentrant is set and one of
// them covers the target, it returns another lease of that one's hold. Otherwise, if
// they block the target, it returns ErrDeadlock, as the caller would wait for itself.
// Otherwise it returns neither. If one of the leases of the name is lost, ctx has ended
// when reenter returns.
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
			// The timer that ends ctx may be late: a claim under a lost lease must not become a new hold.
			l.hold.checkClock() //mutant:lost-claims-afresh
			continue
		}
		if w.l.s.Reentrant && l.covers(w) { //mutant:entered-again-though-nobody
			if again := l.again(w); again != nil {
				return again, nil
			}
			if !l.Valid() {
				continue // it ended just now
			}
		}
		own += l.weight.Load()
		least = min(least, l.hold.limit) // the total held is at most the limit of each holder //mutant:own-total-alone-blocks
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

// blocksItself returns the error of a target that is blocked by a lease from which its
// own context is derived. do is the advice in the error.
func (w *Target) blocksItself(l *Lease, do string) error {
	return w.errorf(fmt.Errorf("%w: its context is that of %s, token %d, for which it would wait; %s",
		store.ErrDeadlock, l.what(), l.Token(), do))
}

// covers reports whether the lease includes all that the target asks for. A write
// lock covers a write and a read lock. An upgradeable read lock covers an
// upgradeable one and a read lock and, while it is upgraded, a write lock. A read
// lock covers a read lock. Slots cover nothing: two more are two more.
func (l *Lease) covers(w *Target) bool {
	if w.limit != store.Full || l.hold.limit != store.Full || w.weight > l.weight.Load() { //mutant:read-lease-covers-write
		return false
	}
	return w.weight != store.Upgradeable || l.hold.changer != nil //mutant:write-lock-covers-upgradeable
}

// again makes one more lease of the hold, or returns nil if the lease has ended or
// no longer covers the target.
func (l *Lease) again(w *Target) *Lease {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.state != held || !l.covers(w) { //mutant:released-enters-again-too
		return nil
	}
	return h.lease(w, l.token, l.values)
}

// what describes the lease in an error.
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
