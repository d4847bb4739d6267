package redlock

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// margin is added to the clock, so that a number is above the first numbers of nodes whose
// clock is a little ahead.
const margin = 20 * time.Millisecond

// reach is how far ahead of the local clock a node's newest token may be for an ask to go
// above it. Nodes refuse a number that is more than tooFar ahead of their clock (AHEAD in
// lua/ask.lua), so that a client with a wrong clock cannot push the tokens far ahead.
const (
	reach  = 8 * time.Second
	tooFar = 10 * time.Second
)

// astray is how far the local clock may differ from that of most nodes before it is
// corrected. A node's clock is known only to within a round trip, and claims are ordered by
// the result.
const astray = 500 * time.Millisecond

// wall returns the time in µs, according to a majority of the nodes.
func (s *Store) wall() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now().UnixMicro() + s.offset()
}

// offset returns the median of the nodes' clocks minus the local clock, or 0 if that is
// small.
func (s *Store) offset() int64 {
	var known [maxNodes]int64
	of := known[:len(s.nodes)]
	for i, n := range s.nodes {
		of[i] = n.offset.Load()
	}
	slices.Sort(of)
	if d := of[len(of)/2]; d > astray.Microseconds() || d < -astray.Microseconds() {
		return d
	}
	return 0
}

// clockOff returns how far a clock that returned now is from the local one. asked and answered
// are the local times around the request. It returns 0 if the round trip can explain the
// difference, so that a process that was stopped meanwhile does not consider its own clock
// wrong.
func clockOff(now, asked, answered time.Time) time.Duration {
	took := answered.Sub(asked)
	d := now.Sub(asked.Add(took / 2))
	if d.Abs() <= took/2 {
		return 0
	}
	return d
}

// learn notes the clock that the node has just returned. It keeps the old offset if that can
// still be true, because a slow answer is less exact than an earlier fast one.
func (t *tally) learn(s *Store, n *node, clock int64) {
	if s.clock != nil {
		return
	}
	t.clocks++
	now, answered := time.UnixMicro(clock), time.Now()
	most := now.Sub(t.asked)
	least := most - answered.Sub(t.asked)
	if had := duration(n.offset.Load()); had < least || had > most { //mutant:redlock-clock-better-known
		n.offset.Store(clockOff(now, t.asked, answered).Microseconds())
	}
}

// reorder corrects the claim's order, which is the time at which it began, if the clock that
// it came from is now known to be wrong, and reports whether it did. A majority has just
// returned its clock, or the local clock may have been set since.
func (s *Store) reorder(cl *claim, t *tally) bool {
	if s.clock != nil || t.clocks <= len(s.nodes)/2 {
		return false
	}
	order := s.wall() - store.Now().Sub(cl.begun).Microseconds()
	if d := duration(order - cl.order); d.Abs() <= astray {
		return false
	}
	cl.order = order
	return true
}

// number returns the number that an ask begins with if no newer token is known.
func (s *Store) number() int64 {
	if s.clock != nil {
		return s.wall()
	}
	return s.wall() + margin.Microseconds()
}

// reaches reports whether an ask can use a number above last.
func (s *Store) reaches(last int64) bool {
	return last <= s.number()+reach.Microseconds()
}

// ahead returns the error of a node on which the claim fits but whose newest number is too
// far ahead to go above it.
func (n *node) ahead(s *Store, now, last int64) error {
	if off := duration(now - s.wall()); off > reach/2 {
		return n.failed(fmt.Errorf("its clock is %v ahead of %s, so its tokens cannot be used: set it by NTP", off.Round(100*time.Millisecond), s.whose()))
	}
	return n.failed(fmt.Errorf("its newest token is %v ahead of its clock, set by a client whose clock was wrong: it grants again when its clock has nearly caught up", duration(last-now).Round(100*time.Millisecond)))
}

// behind returns the error of a node for whose clock the claim's number is too far ahead.
func (n *node) behind(s *Store, now int64) error {
	off := duration(s.wall() - now).Round(100 * time.Millisecond)
	return n.failed(fmt.Errorf("its clock is %v behind %s, so it accepts no token of ours: set it by NTP", off, s.whose()))
}

// whose names the clock that wall returns.
func (s *Store) whose() string {
	if s.offset() != 0 {
		return "that of most nodes"
	}
	return "this host's"
}
