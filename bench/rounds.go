package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A measure is what one contender showed in one round, by column.
type measure map[string]float64

// A column of a table: what is measured, and how it is printed.
type column struct {
	name  string
	print func(float64) string
	ratio bool // print the ratio to the reference beside it
	sum   bool // of all rounds, instead of their median
}

// A runner measures one contender once.
type runner struct {
	name string
	run  func(ctx context.Context) (measure, error)
}

// rounds runs every runner in every round, each round in another order, and
// prints a table of medians. The first runner that is called reference is what
// the ratios refer to.
//
// The reference bestPeer is in each round whichever of the others was best.
func rounds(ctx context.Context, s setup, title, reference string, columns []column, runners []runner) error {
	all := map[string][]measure{}
	for range s.rounds {
		order := rand.Perm(len(runners))
		for _, i := range order {
			m, err := runners[i].run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", title, runners[i].name, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			all[runners[i].name] = append(all[runners[i].name], m)
		}
	}
	if reference == bestPeer {
		all[bestPeer] = best(s.rounds, columns, runners, all)
	}
	fmt.Fprintf(s.out, "\n%s\n", title)
	return table(s.out, reference, columns, runners, all)
}

const bestPeer = "best peer"

// peer reports whether the runner is another lock library.
func peer(name string) bool {
	return !strings.HasPrefix(name, "holdfast") && name != bare
}

// best is the largest figure of any peer in each round.
func best(rounds int, columns []column, runners []runner, all map[string][]measure) []measure {
	out := make([]measure, rounds)
	for i := range out {
		out[i] = measure{}
		for _, r := range runners {
			for _, c := range columns {
				if v, ok := all[r.name][i][c.name]; ok && c.ratio && peer(r.name) {
					out[i][c.name] = max(out[i][c.name], v)
				}
			}
		}
	}
	return out
}

// table prints the medians of each contender and their ratios.
func table(out io.Writer, reference string, columns []column, runners []runner, all map[string][]measure) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", c.name)
		if c.ratio {
			fmt.Fprintf(w, "÷ %s\t", reference)
		}
	}
	fmt.Fprintln(w)
	for _, r := range runners {
		fmt.Fprintf(w, "%s\t", r.name)
		for _, c := range columns {
			got := collect(all[r.name], c.name)
			if len(got) == 0 {
				fmt.Fprint(w, "-\t")
				if c.ratio {
					fmt.Fprint(w, "-\t")
				}
				continue
			}
			if c.sum {
				fmt.Fprintf(w, "%s\t", c.print(total(got)))
			} else {
				fmt.Fprintf(w, "%s\t", c.print(median(got)))
			}
			if c.ratio {
				fmt.Fprintf(w, "%s\t", ratio(all[r.name], all[reference], c.name))
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// ratio is the median over the rounds of this contender's figure divided by
// the reference's.
func ratio(mine, reference []measure, column string) string {
	var rs []float64
	for i := range min(len(mine), len(reference)) {
		a, ok := mine[i][column]
		b, ok2 := reference[i][column]
		if ok && ok2 && b != 0 {
			rs = append(rs, a/b)
		}
	}
	if len(rs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", median(rs))
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

// median sorts vs and returns its middle.
func median[T cmp.Ordered](vs []T) T {
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// How figures are printed.

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

func decimals(v float64) string { return fmt.Sprintf("%.3f", v) }

func seconds(ns float64) string { return fmt.Sprintf("%.2f s", ns/1e9) }

// duration prints nanoseconds with three digits.
func duration(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	default:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	}
}
