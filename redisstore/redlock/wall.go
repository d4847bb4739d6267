package redlock

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// margin is put on top of the clock, so that a number is above what nodes whose
// clock is a little ahead begin with.
const margin = 20 * time.Millisecond

// reach is how far ahead of our clock a node's newest token is followed. Nodes
// refuse a number that is ahead of their clock by tooFar, as AHEAD in lua/ask.lua: a
// client with a wrong clock must not carry the tokens away.
const (
	reach  = 8 * time.Second
	tooFar = 10 * time.Second
)

// astray is how far our clock may be from that of most nodes without being
// corrected: what is learned of a clock is no more exact than a round trip, and
// claims are ordered by it.
const astray = 500 * time.Millisecond

// wall is the time in µs, as a majority of the nodes has it.
func (s *Store) wall() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now().UnixMicro() + s.offset()
}

// offset is the median of the nodes' clocks minus the local one, if that is
// large.
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

// clockOff is how far a clock that returned now is from the local one, if it was
// asked and has answered at these instants; 0 if the round trip can explain it: a
// process that was stopped meanwhile must not consider its own clock wrong.
func clockOff(now, asked, answered time.Time) time.Duration {
	took := answered.Sub(asked)
	d := now.Sub(asked.Add(took / 2))
	if d.Abs() <= took/2 {
		return 0
	}
	return d
}

// learn notes the node's clock, as it has just answered. What was
// known of it stays if it can still be true: an answer that took long says less
// than one before it.
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

// reorder reports whether the claim's order, the time at which it began, was
// drawn by a local clock that is now known to be wrong, and corrects it. A
// majority has just returned its clock, or the local one may have been set
// since.
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

// number is the one that an ask begins with, if no newer token is known.
func (s *Store) number() int64 {
	if s.clock != nil {
		return s.wall()
	}
	return s.wall() + margin.Microseconds()
}

// reaches reports whether a number above that one can be asked with.
func (s *Store) reaches(last int64) bool {
	return last <= s.number()+reach.Microseconds()
}

// ahead is the error of a node that has granted the claim room and whose newest
// number is too far ahead to be followed.
func (n *node) ahead(s *Store, now, last int64) error {
	if off := duration(now - s.wall()); off > reach/2 {
		return n.failed(fmt.Errorf("its clock is %v ahead of %s, so its tokens cannot be used: set it by NTP", off.Round(100*time.Millisecond), s.whose()))
	}
	return n.failed(fmt.Errorf("its newest token is %v ahead of its clock, set by a client whose clock was wrong: it grants again when its clock has nearly caught up", duration(last-now).Round(100*time.Millisecond)))
}

// behind is the error of a node for which the number of the claim is too far
// ahead.
func (n *node) behind(s *Store, now int64) error {
	off := duration(s.wall() - now).Round(100 * time.Millisecond)
	return n.failed(fmt.Errorf("its clock is %v behind %s, so it accepts no token of ours: set it by NTP", off, s.whose()))
}

// whose is whose clock wall is.
func (s *Store) whose() string {
	if s.offset() != 0 {
		return "that of most nodes"
	}
	return "this host's"
}
