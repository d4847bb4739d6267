package prove

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A leaving is what is left out of a run on a store that lacks a promise.
type leaving struct {
	mode   string   // names of this mode
	deeds  []string // by their verbs
	checks []check
}

// lacking has, for each promise, what needs it. A promise that is not here is not
// part of the workload, or is judged as far as the store goes.
var lacking = map[store.Promise]leaving{
	store.PromiseSlots:    {mode: "slots"},
	store.PromiseUpgrade:  {mode: "upgrade", deeds: []string{"upgradeable"}},
	store.PromiseOrder:    {checks: []check{order}},
	store.PromiseTokens:   {checks: []check{tokens, order}}, // the order of grants is known from their tokens
	store.PromiseDeadline: {checks: []check{exclusion, reported}},
}

// lacks reports whether the store of the run lacks the promise.
func (r *Run) lacks(p store.Promise) bool {
	_, ok := r.Lacks[p]
	return ok
}

// lease returns the TTL of the leases; 0: the store has no TTLs.
func (r *Run) lease() time.Duration {
	if r.lacks(store.PromiseDeadline) {
		return 0
	}
	return r.TTL
}

// release returns how long a release or a downgrade may take, without slack: it is
// sent, and sent once more if the outcome is indeterminate.
func (r *Run) release() time.Duration {
	const most = 5 * time.Second
	if r.lacks(store.PromiseDeadline) {
		return 2*most + r.Driver
	}
	return 2*min(r.TTL/3, most) + r.Driver
}

// leftOut returns the missing promises for which something is left out.
func (r *Run) leftOut(what func(leaving) bool) (all []store.Promise) {
	for _, p := range slices.Sorted(maps.Keys(r.Lacks)) {
		if what(lacking[p]) {
			all = append(all, p)
		}
	}
	return all
}

func (r *Run) hasMode(mode string) bool {
	return len(r.leftOut(func(l leaving) bool { return l.mode == mode })) == 0 //mutant:judge-names-slots-store-without
}

func (r *Run) hasDeed(verb string) bool {
	return len(r.leftOut(func(l leaving) bool { return slices.Contains(l.deeds, verb) })) == 0
}

// notChecked says why a check is not made of the run; empty: it is.
func (v *view) notChecked(c check) string {
	for _, p := range v.Run.leftOut(func(l leaving) bool { return slices.Contains(l.checks, c) }) { //mutant:judge-lacked-checked
		return fmt.Sprintf("this store lacks %q: %s", p, v.Run.Lacks[p])
	}
	switch {
	case !v.Run.Peer:
	case c == order:
		return "the order in which claims ask cannot be seen from outside"
	case c == tokens && v.tokenless:
		return "the lock has no fencing tokens"
	case c == reported && !v.tells:
		return "the lock does not report a loss by its deadline"
	}
	return ""
}
