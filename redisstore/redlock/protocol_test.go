package redlock

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// These tests explore the protocol: three nodes, which are the model that the scripts are compared with, two claims, and a network that keeps
// every request forever, so that a request can be lost, duplicated and overtaken. Numbers are arbitrary up to a bound, like those of clients
// with arbitrary clocks. The explorer visits all states.
//
// A claim's lease ends before its votes expire: a node's entry expires only once its owner cannot count it any more. So this rule needs no
// clock here.

// flaw is one line of the protocol that is wrong.
type flaw string

const (
	sound           flaw = ""
	staleAnswers    flaw = "answers to an older number are counted"
	obeysOlder      flaw = "a node obeys an older number"
	repeatTakesBack flaw = "a repeat of the same number is decided again"
	takesAway       flaw = "a node takes a grant away for a better claim"
	anyToken        flaw = "the number is not compared with the newest token"
	repeatByLast    flaw = "a repeat is judged by the newest token"
	forgetsAtOnce   flaw = "a node that forgot answers at once"
	noSeed          flaw = "a node that forgot starts its tokens again"
	anyRelease      flaw = "a release takes whatever the id has"
	blockIgnored    flaw = "a block counts as one token"
)

const (
	exploredNodes  = 3
	exploredNeed   = 2
	exploredClaims = 2
	exploredMost   = 3 // the largest number, and so the most asks of a claim
)

const (
	gaveRoom int8 = 1 << 4
	accepted int8 = 1 << 5
	number   int8 = 15
)

const (
	begins int8 = iota
	asking
	overdue // its time has passed: no answer is counted any more
	holds
	ended
)

// explorer visits all states, millions of them, from one goroutine. The code that runs for each state is compiled without the race detector,
// which would make it five times slower.
type explorer struct {
	flaw  flaw
	most  int8
	wipes int8
	n     [exploredClaims]int // the size of each claim's block of tokens
	seen  visited
	todo  []packed

	nodes   []nodeState
	numbers map[nodeState]nodeNumber
	after   [][events]nodeNumber // by a node's state: the next state for each event, or unknown
}

// event is something that happens to a node: its kind, the claim and the number.
type event struct {
	what     int8
	claim, p int8
}

const (
	asks int8 = iota
	releases
	expires
	wiped
	speaks // after a wipe, once what it had granted has expired
	counts // from now on only its answers up to number p count, for any claim
	kinds
)

const (
	events                 = int(kinds) * exploredClaims * (exploredMost + 1)
	unknownNode nodeNumber = 1<<12 - 1
)

var exploredIDs = [exploredClaims]store.ID{{15: 1}, {15: 2}}

// at returns the model in that state.
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

// goes returns the next state of a node.
//
//go:norace
func (x *explorer) goes(from nodeNumber, e event) nodeNumber {
	slot := &x.after[from][(int(e.what)*exploredClaims+int(e.claim))*(exploredMost+1)+int(e.p)]
	if *slot == unknownNode {
		to := x.number(x.happens(x.nodes[from], e)) // this may move what slot points to
		slot = &x.after[from][(int(e.what)*exploredClaims+int(e.claim))*(exploredMost+1)+int(e.p)]
		*slot = to
	}
	return *slot
}

// number returns the number that stands for a node's state.
func (x *explorer) number(n nodeState) nodeNumber {
	i, ok := x.numbers[n]
	if !ok {
		if i = nodeNumber(len(x.nodes)); i == unknownNode {
			panic("too many states of a node")
		}
		x.numbers[n] = i
		x.nodes = append(x.nodes, n)
		x.after = append(x.after, [events]nodeNumber(slices.Repeat([]nodeNumber{unknownNode}, events)))
	}
	return i
}

func (x *explorer) happens(n nodeState, e event) nodeState {
	c := int(e.claim)
	switch e.what {
	case wiped:
		for c, v := range n.entries {
			if v&accepted != 0 {
				n.voted[c] = v & number
			}
		}
		n.entries, n.silent = [exploredClaims]int8{}, x.flaw != forgetsAtOnce
		if !n.silent {
			n.voted = [exploredClaims]int8{}
		}
		if x.flaw == noSeed {
			n.last = 0
		} // otherwise it is the clock, which is above every number that was accepted
		return n
	case speaks:
		n.silent, n.voted = false, [exploredClaims]int8{}
		return n
	case counts:
		n.ok[c] &= 1 << e.p &^ 1
		return n
	}
	m := x.at(n)
	i := m.find(exploredIDs[c])
	ok := false
	switch e.what {
	case expires:
		m.q = slices.Delete(m.q, i, i+1)
		m.room(store.ID{})
	case releases:
		p := int64(e.p)
		if x.flaw == anyRelease {
			p = 100
		}
		m.release(0, exploredIDs[c], p, 0, true, false)
	default:
		p, last := int64(e.p), m.last
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
		ok = m.ask(0, x.entry(c, e.p, false, false), 1, 1, "") == 'O'
		m.last = max(m.last, last)
	}
	n = x.back(m, n)
	if ok {
		n.ok[c] |= 1 << e.p
	}
	return n
}

// explore visits all states and describes the first wrong one.
//
//go:norace
func (x *explorer) explore() (states int, wrong string) {
	x.numbers = map[nodeState]nodeNumber{}
	x.number(nodeState{})
	x.visit(explored{})
	for i := 0; i < len(x.todo); i++ { // breadth first: that finds errors soon
		s := x.todo[i].unpack()
		if wrong = x.next(&s); wrong != "" {
			for _, n := range s.nodes {
				wrong += fmt.Sprintf(" %+v", x.nodes[n])
			}
			break
		}
	}
	return x.seen.n, wrong
}

//go:norace
func (x *explorer) visit(s explored) {
	if x.flaw != staleAnswers { // answers that no longer count make no difference between states
		for i := range s.nodes {
			for c := range s.claims {
				p := s.claims[c].p
				if s.claims[c].phase != asking {
					p = 0
				}
				s.nodes[i] = x.goes(s.nodes[i], event{counts, int8(c), p})
			}
		}
	}
	for i := range exploredNodes { // a simple sort, as there are so few
		for j := range i {
			s.nodes[i], s.nodes[j] = max(s.nodes[i], s.nodes[j]), min(s.nodes[i], s.nodes[j])
		}
	}
	if k := s.pack(); x.seen.add(k) {
		x.todo = append(x.todo, k)
	}
}

func TestTheProtocolGrantsOneAndTokensGrow(t *testing.T) {
	t.Parallel()
	for _, x := range []explorer{
		{most: 2, n: [2]int{2, 1}},
		{most: 2, n: [2]int{1, 1}, wipes: 1},
	} {
		t.Run(fmt.Sprintf("numbers up to %d, blocks of %v, %d wipes", x.most, x.n, x.wipes), func(t *testing.T) {
			t.Parallel()
			states, wrong := x.explore()
			t.Logf("got %d states", states)
			if wrong != "" {
				t.Error(wrong)
			}
			if states < 100_000 {
				t.Errorf("got only %d states", states)
			}
		})
	}
}

// These are the known ways to get the protocol wrong. The exploration finds each.
func TestTheProtocolWithOneLineWrongIsFound(t *testing.T) {
	t.Parallel()
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
				x.most = 3 // one number more
			}
			states, wrong := x.explore()
			if wrong == "" {
				t.Fatalf("not found in %d states", states)
			}
			t.Logf("after %d states: %.80s", states, wrong)
		})
	}
}
