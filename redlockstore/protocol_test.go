package redlockstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// Here the protocol is explored: three nodes, which are the model that the
// scripts are compared with, two claims, and a network that keeps every request
// for ever, so that it can be lost, doubled and overtaken. Numbers are arbitrary
// up to a bound, as of clients whose clocks are. All states are visited.
//
// A claim's lease ends before its votes expire: a node's entry expires only
// once its owner cannot count it any more. That rule has no clock here.

// A flaw is one line of the protocol that is wrong.
type flaw string

const (
	sound           flaw = ""
	staleAnswers    flaw = "answers to an older number are counted"
	obeysOlder      flaw = "a node obeys an older number"
	repeatTakesBack flaw = "a repeat of the same number arbitrates anew"
	takesAway       flaw = "a node takes a grant away for a better claim"
	anyToken        flaw = "the number is not compared with the newest token"
	repeatByLast    flaw = "a repeat is judged by the newest token"
	forgetsAtOnce   flaw = "a node that forgot answers at once"
	noSeed          flaw = "a node that forgot begins its tokens anew"
	anyRelease      flaw = "a release takes whatever the id has"
	blockIgnored    flaw = "a block counts as one token"
)

const (
	exploredNodes  = 3
	exploredNeed   = 2
	exploredClaims = 2
	exploredMost   = 3 // the largest number, and so the most asks of a claim
)

// explored is a state. Entries' times are 0: they expire by an event.
type explored struct {
	nodes  [exploredNodes]nodeState
	claims [exploredClaims]claimState
	newest int8 // the largest token of all grants
	wipes  int8
}

type nodeState struct {
	last    int8
	entries [exploredClaims]int8 // 0: none; else the number, and flags
	silent  bool                 // wiped, and its votes can still count
	voted   [exploredClaims]int8 // accepted before the wipe, by number
	ok      [exploredClaims]int8 // a bit for each number that it answered with OK
}

const (
	gaveRoom int8 = 1 << 4
	accepted int8 = 1 << 5
	number   int8 = 15
)

type claimState struct {
	phase    int8
	p        int8
	asked    int8 // bits: numbers that were asked with
	released int8 // bits: releases sent, of the number and those before
}

const (
	begins int8 = iota
	asking
	overdue // its time is over: an answer is not counted any more
	holds
	ended
)

// An explorer visits all states, millions of them, from one goroutine. What is
// run for each is compiled without the race detector, which would make it take
// five times as long.
type explorer struct {
	flaw  flaw
	most  int8
	wipes int8
	n     [exploredClaims]int // of the blocks
	seen  map[packed]struct{}
	todo  []explored
	memo  map[move]moved
}

// A packed is a state in few bytes, with the nodes in order: they are alike.
type packed [4]uint64

type move struct {
	n     nodeState
	claim int8
	p     int8
	what  event
}

type event int8

const (
	asks event = iota
	releases
	expires
)

type moved struct {
	n  nodeState
	ok bool
}

var exploredIDs = [exploredClaims]store.ID{{15: 1}, {15: 2}}

// at is what the model has in such a state.
func (x *explorer) at(n nodeState) *model {
	m := &model{there: true, last: int64(n.last)}
	for c, e := range n.entries {
		if e != 0 {
			m.q = append(m.q, x.entry(c, e&number, e&gaveRoom != 0, e&accepted != 0))
		}
	}
	return m
}

func (x *explorer) entry(c int, p int8, granted, accepted bool) entry {
	n := x.n[c]
	if x.flaw == blockIgnored {
		n = 1
	}
	return entry{
		id: exploredIDs[c], order: int64(c), p: int64(p), limit: store.Full, weight: store.Full, n: n,
		granted: granted, accepted: accepted, expires: 1,
	}
}

func (x *explorer) back(m *model, n nodeState) nodeState {
	n.last, n.entries = int8(m.last), [exploredClaims]int8{}
	for _, e := range m.q {
		v := int8(e.p)
		if e.granted {
			v |= gaveRoom
		}
		if e.accepted {
			v |= accepted
		}
		n.entries[e.order] = v
	}
	return n
}

// arrive is a request that arrives at a node.
//
//go:norace
func (x *explorer) arrive(v move) moved {
	if done, ok := x.memo[v]; ok {
		return done
	}
	m := x.at(v.n)
	c := int(v.claim)
	i := m.find(exploredIDs[c])
	var out moved
	switch v.what {
	case expires:
		m.q = slices.Delete(m.q, i, i+1)
		m.room(store.ID{})
	case releases:
		p := int64(v.p)
		if x.flaw == anyRelease {
			p = 100
		}
		m.release(0, exploredIDs[c], p, 0, true, false)
	default:
		p, last := int64(v.p), m.last
		if i >= 0 {
			own := &m.q[i]
			switch {
			case x.flaw == obeysOlder && p < own.p, x.flaw == repeatTakesBack && p == own.p:
				own.p = p - 1
			case x.flaw == repeatByLast && own.granted && p == own.p && p == m.last:
				own.accepted = true
			}
		}
		if x.flaw == takesAway {
			for j := range m.q {
				if m.q[j].order > int64(c) {
					m.q[j].granted, m.q[j].accepted = false, false
				}
			}
		}
		if x.flaw == anyToken {
			m.last = 0
		}
		out.ok = m.ask(0, x.entry(c, v.p, false, false), 1, 1, "") == 'O'
		m.last = max(m.last, last)
	}
	out.n = x.back(m, v.n)
	if out.ok {
		out.n.ok[c] |= 1 << v.p
	}
	x.memo[v] = out
	return out
}

// counted is how many nodes' OKs the claim counts.
//
//go:norace
func (x *explorer) counted(s *explored, c int) (votes int) {
	for _, n := range s.nodes {
		bits := n.ok[c]
		if x.flaw != staleAnswers {
			bits &= 1 << s.claims[c].p
		}
		if bits != 0 {
			votes++
		}
	}
	return votes
}

// live reports whether the number of the claim can still be held, or come to.
//
//go:norace
func (s *explored) live(c int, p int8) bool {
	cl := s.claims[c]
	return cl.p == p && (cl.phase == asking || cl.phase == holds)
}

//go:norace
func (s *explored) pack() (k packed) {
	for i, n := range s.nodes {
		v := uint64(n.last)
		for c := range exploredClaims {
			v = v<<6 | uint64(n.entries[c])
			v = v<<4 | uint64(n.ok[c])
			v = v<<2 | uint64(n.voted[c])
		}
		if n.silent {
			v |= 1 << 62
		}
		k[i] = v
	}
	for i := range exploredNodes { // so few
		for j := range i {
			k[i], k[j] = max(k[i], k[j]), min(k[i], k[j])
		}
	}
	for _, c := range s.claims {
		k[3] = k[3]<<16 | uint64(c.phase)<<12 | uint64(c.p)<<8 | uint64(c.asked)<<4 | uint64(c.released)
	}
	k[3] = k[3]<<8 | uint64(s.newest)<<1 | uint64(s.wipes)
	return k
}

// explore visits all states and says what is wrong in the first wrong one.
func (x *explorer) explore() (states int, wrong string) {
	x.seen, x.memo = map[packed]struct{}{}, map[move]moved{}
	x.visit(explored{})
	for len(x.todo) > 0 {
		s := x.todo[0] // breadth first: what is wrong is found soon
		x.todo = x.todo[1:]
		if wrong = x.next(&s); wrong != "" {
			return len(x.seen), wrong
		}
	}
	return len(x.seen), ""
}

//go:norace
func (x *explorer) visit(s explored) {
	if x.flaw != staleAnswers { // what is not counted any more is no difference
		for i := range s.nodes {
			for c := range s.claims {
				if s.nodes[i].ok[c] &= 1 << s.claims[c].p; s.claims[c].phase != asking {
					s.nodes[i].ok[c] = 0
				}
			}
		}
	}
	k := s.pack()
	if _, ok := x.seen[k]; !ok {
		x.seen[k] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

// next visits all that can follow.
//
//go:norace
func (x *explorer) next(s *explored) (wrong string) {
	for c := range exploredClaims {
		cl := s.claims[c]
		for p := cl.p + 1; cl.phase != holds && cl.phase != ended && p <= x.most; p++ { // asks, with any newer number
			t := *s
			t.claims[c].phase, t.claims[c].p, t.claims[c].asked = asking, p, cl.asked|1<<p
			x.visit(t)
		}
		switch cl.phase {
		case asking:
			if x.counted(s, c) >= exploredNeed {
				for o := range exploredClaims {
					if o != c && s.claims[o].phase == holds {
						return fmt.Sprintf("two hold, with %d and %d: %+v", cl.p, s.claims[o].p, *s)
					}
				}
				if cl.p <= s.newest {
					return fmt.Sprintf("token %d after %d: %+v", cl.p, s.newest, *s)
				}
				t := *s
				t.claims[c].phase, t.newest = holds, cl.p+int8(x.n[c])-1
				x.visit(t)
			}
			t := *s
			t.claims[c].phase = overdue
			x.visit(t)
			t.claims[c].released |= 1 << cl.p // it gives up, and may try again under the same id
			x.visit(t)
		case holds:
			t := *s
			t.claims[c].phase = ended // by its deadline
			x.visit(t)
			t.claims[c].released |= 1 << cl.p
			x.visit(t)
		}
	}
	for i, n := range s.nodes {
		if n.silent {
			over := true
			for c, p := range n.voted {
				over = over && (p == 0 || !s.live(c, p))
			}
			if over {
				t := *s
				t.nodes[i].silent, t.nodes[i].voted = false, [exploredClaims]int8{}
				x.visit(t)
			}
			continue
		}
		for c := range exploredClaims {
			cl := s.claims[c]
			for p := int8(1); p <= cl.p; p++ {
				if cl.asked&(1<<p) != 0 {
					x.goes(s, i, move{n, int8(c), p, asks})
				}
				if cl.released&(1<<p) != 0 {
					x.goes(s, i, move{n, int8(c), p, releases})
				}
			}
			if e := n.entries[c]; e != 0 && (e&accepted == 0 || !s.live(c, e&number)) { // expires
				x.goes(s, i, move{n, int8(c), 0, expires})
			}
		}
		if s.wipes < x.wipes {
			t := *s
			t.wipes++
			w := &t.nodes[i]
			for c, e := range w.entries {
				if e&accepted != 0 {
					w.voted[c] = e & number
				}
			}
			w.entries, w.silent = [exploredClaims]int8{}, x.flaw != forgetsAtOnce
			if !w.silent {
				w.voted = [exploredClaims]int8{}
			}
			if x.flaw == noSeed {
				w.last = 0
			} // else the clock, which is above whatever it accepted
			x.visit(t)
		}
	}
	return ""
}

//go:norace
func (x *explorer) goes(s *explored, i int, v move) {
	if out := x.arrive(v); out.n != v.n {
		t := *s
		t.nodes[i] = out.n
		x.visit(t)
	}
}

func TestTheProtocolLetsOneInAndTokensRise(t *testing.T) {
	for _, x := range []explorer{
		{most: 2, n: [2]int{2, 1}},
		{most: 2, n: [2]int{1, 1}, wipes: 1},
	} {
		t.Run(fmt.Sprintf("numbers up to %d, blocks of %v, %d wipes", x.most, x.n, x.wipes), func(t *testing.T) {
			t.Parallel()
			states, wrong := x.explore()
			t.Logf("%d states", states)
			if wrong != "" {
				t.Error(wrong)
			}
			if states < 100_000 {
				t.Errorf("only %d states: little was explored", states)
			}
		})
	}
}

// The ways to get it wrong that were found, each of which the exploration finds.
func TestTheProtocolWithOneLineWrongIsFound(t *testing.T) {
	for _, x := range []explorer{
		{flaw: staleAnswers}, {flaw: obeysOlder}, {flaw: repeatTakesBack}, {flaw: takesAway}, {flaw: anyToken}, {flaw: repeatByLast},
		{flaw: forgetsAtOnce, wipes: 1}, {flaw: noSeed, wipes: 1}, {flaw: anyRelease}, {flaw: blockIgnored, n: [2]int{2, 1}},
	} {
		t.Run(strings.ReplaceAll(string(x.flaw), " ", "_"), func(t *testing.T) {
			t.Parallel()
			if x.most = 2; x.n == ([2]int{}) {
				x.n = [2]int{1, 1}
			}
			if x.flaw == blockIgnored || x.flaw == obeysOlder || x.flaw == anyRelease {
				x.most = 3 // the number after
			}
			states, wrong := x.explore()
			if wrong == "" {
				t.Fatalf("not found in %d states", states)
			}
			t.Logf("after %d states: %.80s", states, wrong)
		})
	}
}
