package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// A row is the figure of one contender in one column of a table, for programs. With -json it is
// an object, one a line.
type row struct {
	Suite     string `json:"suite"`
	Row       string `json:"row"` // the title of the table
	Contender string `json:"contender,omitempty"`
	Column    string `json:"column,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Better    better `json:"better,omitempty"` // more or less; empty: neither is better
	// Value is the median over the rounds, and Quartiles are the first and third quartile. A
	// sum is the total of all rounds, and has no quartiles.
	Value     *float64    `json:"value,omitempty"`
	Quartiles *[2]float64 `json:"quartiles,omitempty"`
	Sum       bool        `json:"sum,omitempty"`
	// Ratio is the median of the ratios to the reference, each taken within a round.
	Reference      string      `json:"reference,omitempty"`
	Ratio          *float64    `json:"ratio,omitempty"`
	RatioQuartiles *[2]float64 `json:"ratio_quartiles,omitempty"`
	Rounds         int         `json:"rounds,omitempty"`
	Version        string      `json:"version,omitempty"`  // of the contender
	Settings       string      `json:"settings,omitempty"` // of the contender
	Lacks          string      `json:"lacks,omitempty"`    // what it does not do that holdfast does
	Server         string      `json:"server,omitempty"`   // its version and settings
	Machine        string      `json:"machine"`
	Commit         string      `json:"commit"` // of holdfast
	Time           time.Time   `json:"time"`
	// Missing says why the row could not be measured. It has no figures then.
	Missing string `json:"missing,omitempty"`
}

// machine describes what all figures of a run depend on.
func machine() string {
	return fmt.Sprintf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// writeRows writes an object for each figure of the table, if rows were asked for.
func (s setup) writeRows(t *table) error {
	if s.rows == nil {
		return nil
	}
	for _, r := range t.runners {
		for _, c := range t.columns {
			if one, ok := t.row(r.name, c); ok {
				one.Rounds = s.rounds
				if err := s.writeRow(one); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writeFigure writes the row of a single figure that is measured once.
func (s setup) writeFigure(title, contender string, c column, v float64) error {
	s.rounds = 1
	return s.writeRows(&table{
		title: title, columns: []column{c}, runners: []runner{{name: contender}},
		all: map[string][]measure{contender: {{c.name: v}}},
	})
}

func (s setup) writeRow(one row) error {
	one.Suite, one.Server, one.Machine, one.Commit, one.Time = s.suite, s.server, machine(), commit(), time.Now().UTC().Truncate(time.Second)
	return s.rows.Encode(one)
}

// row returns the row of a figure, without the fields that all rows of a run share; false:
// there is no such figure.
func (t *table) row(contender string, c column) (one row, ok bool) {
	got := collect(t.all[contender], c.name)
	if len(got) == 0 {
		return row{}, false
	}
	note, _ := noteOf(contender)
	one = row{
		Row: t.title, Contender: contender, Column: c.name, Unit: c.unit, Better: c.better,
		Version: note.version(), Settings: note.settings, Lacks: note.lacks,
	}
	if c.sum {
		sum := total(got)
		one.Value, one.Sum = &sum, true
		return one, true
	}
	values := spreadOf(got)
	one.Value, one.Quartiles = &values.middle, &[2]float64{values.low, values.high}
	if rs := ratios(t.all[contender], t.all[t.reference], c.name); c.ratio && len(rs) > 0 {
		r := spreadOf(rs)
		one.Reference, one.Ratio, one.RatioQuartiles = t.reference, &r.middle, &[2]float64{r.low, r.high}
	}
	return one, true
}

// absent reports that a row cannot be measured here, and why.
func (s setup) absent(title, why string) error {
	fmt.Fprintf(s.out, "\n%s: %s\n", title, why)
	if s.rows == nil {
		return nil
	}
	return s.writeRow(row{Row: title, Missing: why})
}

// at is the setup for rows on a server; server has its version and settings.
func (s setup) at(server string) setup {
	fmt.Fprintf(s.out, "\n%s\n", server)
	s.server = server
	return s
}

// forPrograms returns a setup that writes rows as JSON to out, and the tables for people to
// standard error.
func (s setup) forPrograms(out io.Writer) setup {
	s.out, s.rows = os.Stderr, json.NewEncoder(out)
	s.rows.SetEscapeHTML(false)
	return s
}

// readRows reads the output of -json.
func readRows(in io.Reader) (all []row, err error) {
	for d := json.NewDecoder(in); ; {
		var r row
		switch err := d.Decode(&r); err {
		case nil:
			all = append(all, r)
		case io.EOF:
			return all, nil
		default:
			return nil, fmt.Errorf("read the rows: %w", err)
		}
	}
}
