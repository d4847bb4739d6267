package main

import (
	"fmt"
	"hash/maphash"
	"io"
	"unsafe"
)

// A machine is something whose histories are explored. S is its whole state, in a comparable value of bytes only: no
// field is wider, so that there are no gaps between fields.
type machine[S comparable] interface {
	start() S
	// next calls yield for every state that can follow, with the action and the claim. fault: the step uses up one
	// of the faults that are left.
	next(s S, yield func(what string, who int, fault bool, to S))
	// wrong returns what must never be in a state, whatever follows; "" if nothing is wrong.
	wrong(s S) string
	// rests reports whether the state is a good end.
	rests(s S) bool
	// stuck returns what it means that no such end can be reached.
	stuck() string
	who(i int) string
	text(s S) string // the state of the server, for people
}

// A result is what was found in all histories of a machine.
type result struct {
	states int
	wrong  string // "": nothing is wrong
	tell   func(w io.Writer)
}

// explore visits every state that can be reached within the bounds of m. Then it checks of each whether it can come
// to rest without a further fault. The search is breadth-first, so the printed history is a shortest one.
func explore[S comparable](m machine[S], bound int) (res result) {
	var (
		states []S
		from   []int32
		edges  []int32 // of the steps without faults, state by state
		starts []int32 // where the edges of a state begin
		seed   = maphash.MakeSeed()
		index  = map[uint64]int32{} // by a hash, or by the next free number if another state has that
	)
	add := func(s S, before int32) int32 {
		key := maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s)))
		for ; ; key++ {
			i, ok := index[key]
			if !ok {
				break
			}
			if states[i] == s {
				return i
			}
		}
		i := int32(len(states))
		index[key] = i
		states, from = append(states, s), append(from, before)
		return i
	}
	found := func(at int, what string) result {
		path := []int32{}
		for k := int32(at); k >= 0; k = from[k] {
			path = append(path, k)
		}
		history := make([]S, 0, len(path))
		for k := len(path) - 1; k >= 0; k-- {
			history = append(history, states[path[k]])
		}
		return result{len(states), what, func(w io.Writer) { printHistory(w, m, history) }}
	}

	add(m.start(), -1)
	for i := 0; i < len(states); i++ {
		starts = append(starts, int32(len(edges)))
		s := states[i]
		if what := m.wrong(s); what != "" {
			return found(i, what)
		}
		m.next(s, func(_ string, _ int, fault bool, to S) {
			if k := add(to, int32(i)); !fault && k != int32(i) {
				edges = append(edges, k)
			}
		})
		if len(states) > bound {
			panic(fmt.Sprintf("more than %d states", bound))
		}
	}
	starts = append(starts, int32(len(edges)))
	for i, rests := range backFrom(states, m.rests, edges, starts) {
		if !rests {
			return found(i, m.stuck())
		}
	}
	return result{states: len(states)}
}

// backFrom reports for each state whether a good one can be reached from it.
func backFrom[S any](states []S, good func(S) bool, edges, starts []int32) []bool {
	n := len(states)
	count := make([]int32, n+1)
	for _, to := range edges {
		count[to+1]++
	}
	for i := range n {
		count[i+1] += count[i]
	}
	back := make([]int32, len(edges))
	fill := append([]int32(nil), count...)
	for i := range n {
		for _, to := range edges[starts[i]:starts[i+1]] {
			back[fill[to]] = int32(i)
			fill[to]++
		}
	}
	reaches := make([]bool, n)
	var todo []int32
	for i := range states {
		if good(states[i]) {
			reaches[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, before := range back[count[i]:count[i+1]] {
			if !reaches[before] {
				reaches[before] = true
				todo = append(todo, before)
			}
		}
	}
	return reaches
}

// printHistory prints a history, one step per line.
func printHistory[S comparable](w io.Writer, m machine[S], history []S) {
	for i := 1; i < len(history); i++ {
		reported := false
		m.next(history[i-1], func(what string, who int, _ bool, to S) {
			if to == history[i] && !reported {
				reported = true
				fmt.Fprintf(w, "    %-3s %-46s %s\n", m.who(who)+":", what, m.text(to))
			}
		})
	}
}
