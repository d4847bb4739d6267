package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// A rowKey is what the same figure of two trees has in common.
type rowKey struct{ suite, row, contender, column string }

func (k rowKey) String() string { return k.row + ": " + k.contender + ": " + k.column }

// A compared row has the figures of both trees, one of each for every pair of rounds.
type compared struct {
	key      rowKey
	unit     string
	better   better
	old, now []float64
}

// pairUp matches each figure of the old tree with that of this tree from the same pair of
// rounds. It leaves out sums, which are the counts of stalled waiters, and figures of which
// neither is better. only are the figures that not both trees have.
func pairUp(old, now [][]row) (all []compared, only []rowKey) {
	index := map[rowKey]int{}
	single := map[rowKey]int{}
	for i := range min(len(old), len(now)) {
		before := map[rowKey]row{}
		for _, r := range old[i] {
			before[r.key()] = r
			single[r.key()]++
		}
		for _, r := range now[i] {
			key := r.key()
			single[key]--
			was, ok := before[key]
			if !ok || r.Better == neither || r.Sum || was.Value == nil || r.Value == nil || *was.Value == 0 || *r.Value == 0 {
				continue
			}
			at, ok := index[key]
			if !ok {
				at = len(all)
				index[key] = at
				all = append(all, compared{key: key, unit: r.Unit, better: r.Better})
			}
			all[at].old = append(all[at].old, *was.Value)
			all[at].now = append(all[at].now, *r.Value)
		}
	}
	for key, n := range single {
		if n != 0 {
			only = append(only, key)
		}
	}
	slices.SortFunc(only, func(a, b rowKey) int { return cmp.Compare(a.String(), b.String()) })
	return all, only
}

func (r row) key() rowKey { return rowKey{r.Suite, r.Row, r.Contender, r.Column} }

// ratios returns this tree's figure divided by the old one's, for each pair.
func (c compared) ratios() (rs []float64) {
	for i := range c.old {
		rs = append(rs, c.now[i]/c.old[i])
	}
	return rs
}

// byChance is the highest probability of a verdict if the trees are equally fast.
const byChance = 0.001

// leastPairs is how many pairs a verdict needs.
const leastPairs = 10

// verdict is "slower" or "faster" if this tree is so in more pairs than chance explains,
// otherwise empty. It is the sign test: if both trees are equally fast, each pair is like a
// coin toss, whatever the distribution of the figures.
func (c compared) verdict() string {
	slower, faster := 0, 0
	for i := range c.old {
		switch worse := c.now[i] < c.old[i]; {
		case c.now[i] == c.old[i]:
		case worse == (c.better == more):
			slower++
		default:
			faster++
		}
	}
	switch n := slower + faster; {
	case atLeast(slower, n) <= byChance:
		return "slower"
	case atLeast(faster, n) <= byChance:
		return "faster"
	}
	return ""
}

// atLeast is the probability that n coins show heads k times or more.
func atLeast(k, n int) float64 {
	sum, of := 0.0, 1.0 // of is n choose i, divided by 2^n
	for range n {
		of /= 2
	}
	for i := range n + 1 {
		if i >= k {
			sum += of
		}
		of = of * float64(n-i) / float64(i+1)
	}
	return sum
}

// printCompared prints all rows, and then lists those that changed.
func printCompared(out io.Writer, all []compared, only []rowKey) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nrow\tcontender\tcolumn\told\tnew\tnew ÷ old\t")
	title := ""
	for _, c := range all {
		shown := c.key.row
		if shown == title {
			shown = ""
		}
		title = c.key.row
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shown, c.key.contender, c.key.column,
			inUnit(spreadOf(c.old).middle, c.unit), inUnit(spreadOf(c.now).middle, c.unit), spreadOf(c.ratios()), c.verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, key := range only {
		fmt.Fprintf(out, "measured in one tree only: %s\n", key)
	}
	for _, what := range []string{"slower", "faster"} {
		n := 0
		for _, c := range all {
			if c.verdict() != what {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(out, "\n%s beyond the noise:\n", what)
			}
			fmt.Fprintf(out, "  %s: new ÷ old %s, %s is better\n", c.key, spreadOf(c.ratios()), c.better)
		}
		if n == 0 {
			fmt.Fprintf(out, "\n%s beyond the noise: no row\n", what)
		}
	}
	return nil
}

// inUnit formats a figure with its unit.
func inUnit(v float64, unit string) string {
	if unit == "ns" {
		return duration(v)
	}
	return fmt.Sprintf("%.4g", v)
}
