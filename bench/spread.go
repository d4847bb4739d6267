package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// median sorts vs and returns its middle.
func median[T cmp.Ordered](vs []T) T {
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// A spread is the quartiles of some figures.
type spread struct{ low, middle, high float64 }

// spreadOf returns the quartiles of vs, which must not be empty. It interpolates between two
// figures.
func spreadOf(vs []float64) spread {
	sorted := slices.Sorted(slices.Values(vs))
	at := func(share float64) float64 {
		where := share * float64(len(sorted)-1)
		below := int(math.Floor(where))
		above := min(below+1, len(sorted)-1)
		return sorted[below] + (where-float64(below))*(sorted[above]-sorted[below])
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

// String formats a spread of ratios.
func (s spread) String() string {
	return asRatio(s.middle) + " (" + asRatio(s.low) + "–" + asRatio(s.high) + ")"
}

// asRatio prints a value below a tenth with three significant digits.
func asRatio(v float64) string {
	if math.Abs(v) < 0.1 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// ratios returns, for each round, the first figure divided by the second.
func ratios(these, those []measure, column string) (rs []float64) {
	for i := range min(len(these), len(those)) {
		a, ok := these[i][column]
		b, ok2 := those[i][column]
		if ok && ok2 && b != 0 {
			rs = append(rs, a/b)
		}
	}
	return rs
}

func collect(ms []measure, column string) (vs []float64) {
	for _, m := range ms {
		if v, ok := m[column]; ok {
			vs = append(vs, v)
		}
	}
	return vs
}

func total(vs []float64) (sum float64) {
	for _, v := range vs {
		sum += v
	}
	return sum
}
