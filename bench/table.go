package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints the table for people, and its rows for programs if they were
// asked for.
func (s setup) report(t *table) error {
	for _, r := range t.runners {
		if _, ok := noteOf(r.name); !ok {
			return fmt.Errorf("%s: there is no note about the contender %q", t.title, r.name)
		}
	}
	fmt.Fprintf(s.out, "\n%s\n", t.title)
	if err := t.print(s.out); err != nil {
		return err
	}
	return s.writeRows(t)
}

// print prints the medians of each contender, those of their ratios with quartiles, and the
// contenders' notes.
func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, c := range t.columns {
		fmt.Fprintf(w, "%s\t", c.name)
		if c.ratio {
			fmt.Fprintf(w, "÷ %s\t", t.reference)
		}
	}
	fmt.Fprintln(w)
	for _, r := range t.runners {
		fmt.Fprintf(w, "%s\t", r.name)
		for _, c := range t.columns {
			fmt.Fprintf(w, "%s\t", t.value(r.name, c))
			if c.ratio {
				fmt.Fprintf(w, "%s\t", t.ratio(r.name, c))
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range t.runners {
		if n, _ := noteOf(r.name); n.String() != "" {
			fmt.Fprintf(out, "  %s: %s\n", r.name, n)
		}
	}
	return nil
}

// value is the text of one cell.
func (t *table) value(contender string, c column) string {
	got := collect(t.all[contender], c.name)
	switch {
	case len(got) == 0:
		return "-"
	case c.sum:
		return c.print(total(got))
	default:
		return c.print(spreadOf(got).middle)
	}
}

func (t *table) ratio(contender string, c column) string {
	rs := ratios(t.all[contender], t.all[t.reference], c.name)
	if len(rs) == 0 {
		return "-"
	}
	return spreadOf(rs).String()
}
