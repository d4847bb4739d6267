package redlock

import (
	"fmt"
)

// explored is a state. The entries' times are 0: they expire by an event.
type explored struct {
	nodes  [exploredNodes]nodeNumber // sorted, as nodes are alike
	claims [exploredClaims]claimState
	newest int8 // the largest token of all grants
	wipes  int8
}

// nodeNumber stands for a state of a node: there are some hundreds.
type nodeNumber uint16

type nodeState struct {
	last    int8
	entries [exploredClaims]int8 // 0: none; otherwise the number, and flags
	silent  bool                 // wiped, while its old votes can still count
	voted   [exploredClaims]int8 // accepted before the wipe, by number
	ok      [exploredClaims]int8 // one bit for each number that it answered with OK
}

type claimState struct {
	phase    int8
	p        int8
	asked    int8 // one bit for each number that was asked with
	released int8 // one bit for each release sent; a release covers its number and all before
}

// packed is a state in one number.
type packed uint64

// counted returns from how many nodes the claim counts an OK.
//
//go:norace
func (x *explorer) counted(s *explored, c int) (votes int) {
	for _, i := range s.nodes {
		bits := x.nodes[i].ok[c]
		if x.flaw != staleAnswers {
			bits &= 1 << s.claims[c].p
		}
		if bits != 0 {
			votes++
		}
	}
	return votes
}

// live reports whether the number of the claim is held, or still can be.
//
//go:norace
func (s *explored) live(c int, p int8) bool {
	cl := s.claims[c]
	return cl.p == p && (cl.phase == asking || cl.phase == holds)
}

//go:norace
func (s *explored) pack() (k packed) {
	for _, n := range s.nodes {
		k = k<<12 | packed(n)
	}
	for _, c := range s.claims { // no request has the number 0
		k = k<<3 | packed(c.phase)
		k = k<<2 | packed(c.p)
		k = k<<3 | packed(c.asked>>1)
		k = k<<3 | packed(c.released>>1)
	}
	return k<<4 | packed(s.newest)<<1 | packed(s.wipes)
}

//go:norace
func (k packed) unpack() (s explored) {
	take := func(bits int) int8 {
		v := k & (1<<bits - 1)
		k >>= bits
		return int8(v)
	}
	s.wipes, s.newest = take(1), take(3)
	for i := range s.claims {
		c := &s.claims[len(s.claims)-1-i]
		c.released, c.asked, c.p, c.phase = take(3)<<1, take(3)<<1, take(2), take(3)
	}
	for i := range s.nodes {
		s.nodes[len(s.nodes)-1-i] = nodeNumber(k >> (12 * i) & (1<<12 - 1))
	}
	return s
}

// visited is a set, kept as a table of which at least a quarter is empty.
type visited struct {
	table []packed // a state plus one; 0: empty
	n     int
}

// add reports whether the state was new.
//
//go:norace
func (v *visited) add(k packed) bool {
	if 4*v.n >= 3*len(v.table) {
		old := v.table
		*v = visited{table: make([]packed, max(1<<16, 2*len(old)))}
		for _, k := range old {
			if k != 0 {
				v.add(k - 1)
			}
		}
	}
	for i := uint64(k) * 0x9e3779b97f4a7c15 >> 32; ; i++ {
		switch at := &v.table[i&uint64(len(v.table)-1)]; *at {
		case 0:
			*at = k + 1
			v.n++
			return true
		case k + 1:
			return false
		}
	}
}

// next visits all states that can follow.
//
//go:norace
func (x *explorer) next(s *explored) (wrong string) {
	for c := range exploredClaims {
		cl := s.claims[c]
		for p := cl.p + 1; cl.phase != holds && cl.phase != ended && p <= x.most; p++ { // it asks, with any newer number
			t := *s
			t.claims[c].phase, t.claims[c].p, t.claims[c].asked = asking, p, cl.asked|1<<p
			x.visit(t)
		}
		switch cl.phase {
		case asking:
			if x.counted(s, c) >= exploredNeed {
				for o := range exploredClaims {
					if o != c && s.claims[o].phase == holds {
						return fmt.Sprintf("two claims hold the lock, with %d and %d: %+v", cl.p, s.claims[o].p, *s)
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
			t.claims[c].phase = ended // its deadline has passed
			x.visit(t)
			t.claims[c].released |= 1 << cl.p
			x.visit(t)
		}
	}
	for i, at := range s.nodes {
		if i > 0 && at == s.nodes[i-1] {
			continue // the same as that node
		}
		n := x.nodes[at]
		if n.silent {
			over := true
			for c, p := range n.voted {
				over = over && (p == 0 || !s.live(c, p))
			}
			if over {
				x.to(s, i, event{what: speaks})
			}
			continue
		}
		for c := range exploredClaims {
			cl := s.claims[c]
			for p := int8(1); p <= cl.p; p++ {
				if cl.asked&(1<<p) != 0 {
					x.to(s, i, event{asks, int8(c), p})
				}
				if cl.released&(1<<p) != 0 {
					x.to(s, i, event{releases, int8(c), p})
				}
			}
			if e := n.entries[c]; e != 0 && (e&accepted == 0 || !s.live(c, e&number)) {
				x.to(s, i, event{expires, int8(c), 0})
			}
		}
		if s.wipes < x.wipes {
			t := *s
			t.wipes++
			x.to(&t, i, event{what: wiped})
		}
	}
	return ""
}

// to visits the state that follows when the event happens to the node.
//
//go:norace
func (x *explorer) to(s *explored, node int, e event) {
	t := *s
	t.nodes[node] = x.goes(s.nodes[node], e)
	if t != *s || e.what == wiped {
		x.visit(t)
	}
}
