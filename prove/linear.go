package prove

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long the search of one window may take.
const patience = 500 * time.Millisecond

// linear: the grants, ends and refusals of a name have an order that a lock could
// have produced, each at an instant within its observed interval: each granted claim
// fits, each refused one does not, and tokens grow with each conflicting grant.
//
// Searching a whole run would take too long, so it is cut into windows where the
// state is known: at an instant at which a sole holder certainly holds the whole
// name. Earlier grants to others have ended by then, and later grants begin
// later, so the cut loses nothing.
func (j *judge) linear() {
	excused := j.voids(linear)
	for _, name := range slices.Sorted(maps.Keys(j.byName)) {
		for _, w := range j.windows(name) {
			if within(excused, w.from, w.to) {
				j.Voided++
				continue
			}
			if len(w.ops) == 0 {
				continue
			}
			switch porcupine.CheckOperationsTimeout(w.model(), w.ops, patience) {
			case porcupine.Ok:
				j.Judged++
			case porcupine.Unknown:
				j.Undecided++
			case porcupine.Illegal:
				j.Judged++
				w.shrink()
				j.wrong(name, w.from, w.to, w.claims(), "no correct lock could give these %d grants, ends and refusals in any order", len(w.ops))
			}
		}
	}
}

// An act is a grant, an end or a refusal, at one instant.
type act struct {
	what   action
	index  uint32 // the index of the hold in the name's claims
	c      *claim
	weight int64
	token  int64
}

type action byte

const (
	granting action = iota
	ending
	refusing
)

// A cutting is the part of a name's history in one window, with the state of the lock before it.
type cutting struct {
	window
	limit  int64
	tokens bool // the model requires growing tokens
	first  lockState
	ops    []porcupine.Operation
}

// lockState is the state of the lock in the model. It must be comparable.
type lockState struct {
	holds string // the indices of the holds, four bytes each, in order
	sum   int64  // the sum of their weights
	last  int64  // the newest token of a hold of the whole
	any   int64  // the newest token
}

func (w *cutting) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return w.first },
		Step: func(state, input, _ any) (bool, any) {
			s, a := state.(lockState), input.(act)
			return s.step(a, w.limit, w.tokens)
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input.(act)) },
	}
}

func (s lockState) step(a act, limit int64, tokens bool) (bool, lockState) {
	switch a.what {
	case granting:
		whole := a.weight == limit
		if s.sum+a.weight > limit || tokens && (a.token <= s.last || whole && a.token <= s.any) { //mutant:judge-lock-room-any
			return false, s
		}
		if s.any = max(s.any, a.token); whole {
			s.last = a.token
		}
		s.holds, s.sum = insert(s.holds, a.index), s.sum+a.weight
		return true, s
	case ending:
		i := find(s.holds, a.index)
		if i < 0 {
			return false, s
		}
		s.holds, s.sum = s.holds[:i]+s.holds[i+4:], s.sum-a.weight
		return true, s
	}
	return s.sum+a.weight > limit, s // refusing //mutant:judge-lock-may-refuse-likes
}

func encode(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

func find(holds string, n uint32) int {
	for i := 0; i < len(holds); i += 4 {
		if holds[i:i+4] == encode(n) {
			return i
		}
	}
	return -1
}

func insert(holds string, n uint32) string {
	x, i := encode(n), 0
	for i < len(holds) && holds[i:i+4] < x {
		i += 4
	}
	return holds[:i] + x + holds[i:]
}

// windows cuts the history of the name. The model has no changes of weight: in it
// a hold keeps the weight that it was granted. The other checks judge the changes.
func (j *judge) windows(name string) (all []*cutting) {
	claims, limit, longest := j.byName[name], j.names[name].Limit, j.longest(name)
	fenced := j.notChecked(tokens) == ""
	w := &cutting{window: window{0, never}, limit: limit, tokens: fenced}
	all = append(all, w)
	starts := []time.Duration{0}
	for _, at := range j.cuts(name, limit) {
		w.to = at.when
		first := lockState{holds: encode(uint32(at.index)), sum: limit, last: at.token, any: at.token}
		w = &cutting{window: window{at.when, never}, limit: limit, tokens: fenced, first: first}
		all = append(all, w)
		starts = append(starts, at.when)
	}
	// of returns the window that an instant is in: from one cut until the next.
	of := func(at time.Duration) *cutting {
		i, exact := slices.BinarySearch(starts, at)
		if !exact {
			i--
		}
		return all[max(i, 0)]
	}
	for i, c := range claims {
		switch {
		case c.granted && (len(c.spans) > 0 || c.clean() && !j.Run.Peer): // a user's own lock may report a clean release without checking that it held
			of(c.back).add(act{granting, uint32(i), c, c.weight, c.token}, c.call, c.back)
			over := never
			if c.clean() {
				over = c.released
			}
			since := c.end()
			if !c.sure() {
				since = c.call
			}
			of(max(c.back, c.end())).add(act{ending, uint32(i), c, c.weight, 0}, since, over)
		case c.verb == "try" && c.err == "held" && of(c.call) == of(c.back) && !j.excuses(c, longest): //mutant:judge-nobody-way-try
			of(c.call).add(act{refusing, 0, c, c.weight, 0}, c.call, c.back)
		}
	}
	return all
}

func (w *cutting) add(a act, from, to time.Duration) {
	w.ops = append(w.ops, porcupine.Operation{
		ClientId: a.c.proc, Input: a, Call: int64(max(from, w.from)), Return: int64(min(to, w.to)),
	})
}

// A sole is an instant at which one hold of the whole name is observed, and no other.
type sole struct {
	when  time.Duration
	index int
	token int64
}

// few is the minimum number of grants between two cuts. The search handles so
// many easily.
const few = 16

// cuts returns the instants to cut at, each within a hold that has the whole name
// to itself from its first instant to its last. After an excused window it cuts
// as soon as possible: otherwise what follows would not be judged either.
func (j *judge) cuts(name string, limit int64) (all []sole) {
	excused, last := j.voids(linear), time.Duration(0)
	past := func(at time.Duration) bool {
		return slices.ContainsFunc(excused, func(w window) bool { return last < w.to && w.to < at }) //mutant:judge-cut-after-excuse
	}
	index := map[*claim]int{}
	var vague []window // in each a hold may have existed, and may have been lost, at any time
	for i, c := range j.byName[name] {
		if index[c] = i; c.granted && !c.sure() {
			vague = append(vague, window{c.call, c.end()})
		}
	}
	spans := j.spansOf(name)
	latest := time.Duration(-1) // the latest end of the earlier spans
	since := 0
	for i, s := range spans {
		alone := s.from >= latest && (i+1 == len(spans) || spans[i+1].from >= s.to)
		latest, since = max(latest, s.to), since+1
		if (since > few || past(s.from)) && alone && s.weight == limit && len(s.c.spans) == 1 && s.to-s.from >= 2 && !within(vague, s.from, s.to) {
			since, last = 0, s.from+(s.to-s.from)/2
			all = append(all, sole{last, index[s.c], s.token})
		}
	}
	return all
}

// excuses reports whether a try may have been blocked by a claim that was not observed
// to hold: a waiter, a claim or release in progress, or the leftover of a claim whose
// end was not reported, or whose request may have been sent twice.
func (j *judge) excuses(try *claim, longest time.Duration) bool {
	if j.ghost(try) { //mutant:judge-own-ghost-refuses
		return true
	}
	claims, gone := j.byName[try.name], 3*j.Run.TTL
	first := sort.Search(len(claims), func(i int) bool { return claims[i].call >= try.call-longest-gone })
	for _, c := range claims[first:] {
		if c.call > try.back {
			break
		}
		unseen := window{c.call, c.back} // it was asking, or waiting
		after := window{c.end(), c.end() + gone}
		switch {
		case c == try:
			continue
		case c.verb == "upgradeable": // it may have, or wait for, the whole
			unseen = window{c.call, min(c.end(), j.end)}
		case c.back == never:
			unseen.to = min(c.died, j.end) + gone
			after = unseen
		case !c.granted && c.verb == "try" && c.err == "held" && !j.ghost(c):
			after = unseen
		case !c.granted:
			after = window{c.back, c.back + gone}
		case c.clean():
			after = window{c.end(), c.released}
		}
		if j.askedLate(c) { //mutant:judge-ask-arrives-late
			after.to = max(after.to, min(max(c.back, c.end()), j.end)+gone)
		}
		if unseen.meets(try.call, try.back+1) || after.meets(try.call, try.back+1) {
			return true
		}
	}
	return false
}

// longest returns the longest time from the call of a claim to the end of its hold or release.
func (j *judge) longest(name string) (most time.Duration) {
	for _, c := range j.byName[name] {
		switch {
		case c.granted:
			most = max(most, c.end()-c.call, min(c.released, j.end)-c.call)
		case c.back != never:
			most = max(most, c.back-c.call)
		default:
			most = max(most, j.end-c.call)
		}
	}
	return most
}

// shrink drops what the violation does not need: all that was answered after the
// first instant by which the window is illegal, except the ends of earlier holds.
func (w *cutting) shrink() {
	slices.SortStableFunc(w.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	upTo := func(at int64) (ops []porcupine.Operation) {
		began := map[uint32]bool{}
		for _, op := range w.ops {
			if a := op.Input.(act); a.what == granting && op.Return <= at {
				began[a.index] = true
			}
		}
		for _, op := range w.ops {
			a := op.Input.(act)
			if a.what == ending && (began[a.index] || find(w.first.holds, a.index) >= 0) || a.what != ending && op.Return <= at {
				ops = append(ops, op)
			}
		}
		return ops
	}
	i := sort.Search(len(w.ops), func(i int) bool {
		return porcupine.CheckOperationsTimeout(w.model(), upTo(w.ops[i].Return), patience) == porcupine.Illegal
	})
	if i < len(w.ops) {
		w.to = time.Duration(w.ops[i].Return)
		w.ops = upTo(w.ops[i].Return)
	}
}

func (w *cutting) claims() (all []*claim) {
	for _, op := range w.ops {
		if c := op.Input.(act).c; !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all[max(0, len(all)-6):]
}
