package prove

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"
	"time"
)

//go:embed report.html
var page string

// pageTemplate is read when a page is written: it takes longer than all else that
// a call of the command does before main.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("report").Parse(page)) })

// A chart is the timeline of one name: for each process a row of who waited and
// who held, with the faults behind it.
type chart struct {
	Name, Mode string
	Rows       []row
	Marks      []mark // faults of the store, over all rows
	Ticks      []mark
	Height     int
}

type row struct {
	Process int
	Y       int
	Bars    []bar
}

// A bar is a time in which something was so. X and W are of a thousand.
type bar struct {
	X, W  float64
	Class string // wait, whole, part, lost or fault
	Title string
	Text  string // in it, if it is wide enough
}

type mark struct {
	X    float64
	Text string
}

const rowHeight = 26

// A scene is what the page shows.
type scene struct {
	*Report
	Charts  []chart
	Windows []telling
	Good    bool

	LongestWait time.Duration
}

// telling is a violation with its events as lines, and the chart of its name
// around it.
type telling struct {
	Violation
	Lines  []string
	Charts []chart
}

// HTML writes the report with the timeline of each name.
func (r *Report) HTML(w io.Writer, h *History) error {
	v := newView(h)
	s := scene{Report: r, Good: r.Verdict.Proved, LongestWait: short(r.Verdict.Figures.LongestWait)}
	for i := range r.Verdict.Violations {
		t := telling{Violation: r.Verdict.Violations[i]}
		for _, e := range t.Events {
			t.Lines = append(t.Lines, fmt.Sprintf("%12.3f ms  %s", float64(e.At)/1e6, e.line()))
		}
		if n, ok := v.names[t.Name]; ok {
			margin := (t.To - t.From) / 5
			t.Charts = append(t.Charts, v.chart(n, window{max(t.From-margin, 0), min(t.To+margin, v.end)}))
		}
		s.Windows = append(s.Windows, t)
	}
	for _, n := range r.Run.Names {
		s.Charts = append(s.Charts, v.chart(n, window{0, v.end}))
	}
	return pageTemplate().Execute(w, &s)
}

// chart draws what happened to one name in a window.
func (v *view) chart(n Name, w window) chart {
	c := chart{Name: n.Name, Mode: n.Mode, Height: rowHeight*v.Run.Processes + 20}
	scale := func(at time.Duration) float64 { return 1000 * float64(at-w.from) / float64(max(w.to-w.from, 1)) }
	at := func(from, to time.Duration, class, title string, args ...any) bar {
		from, to = min(max(from, w.from), w.to), max(min(to, w.to), w.from)
		return bar{X: scale(from), W: max(scale(to)-scale(from), thin), Class: class, Title: fmt.Sprintf(title, args...)}
	}
	for p := 1; p <= v.Run.Processes; p++ {
		r := row{Process: p, Y: rowHeight * (p - 1)}
		add := func(b bar, from, to time.Duration) {
			if from <= w.to && to >= w.from {
				r.add(b)
			}
		}
		for _, f := range v.faultsOf(p) {
			add(at(f.from, f.to, "fault", "%s", f.what), f.from, f.to)
		}
		for _, x := range v.byName[n.Name] {
			if x.proc != p {
				continue
			}
			back := min(x.back, x.died, v.end)
			if !x.granted {
				add(at(x.call, back, "wait", "claim %d, %s: %s", x.op, x.verb, x.err), x.call, back)
				continue
			}
			add(at(x.call, back, "wait", "claim %d, %s: waited %v", x.op, x.verb, short(x.back-x.call)), x.call, back)
			for _, s := range x.spans {
				class := "part"
				if s.weight == n.Limit {
					class = "whole"
				}
				b := at(s.from, s.to, class, "claim %d, %s: token %d, weight %d, held %v", x.op, x.verb, s.token, s.weight, short(s.to-s.from))
				if b.W > 70 && s.token != 0 {
					b.Text = fmt.Sprintf("…%06d", s.token%1e6)
				}
				add(b, s.from, s.to)
			}
			if x.lost != never {
				add(at(x.lost, x.lost, "lost", "claim %d: lost", x.op), x.lost, x.lost)
			}
		}
		c.Rows = append(c.Rows, r)
	}
	step := round((w.to - w.from) / 10)
	for t := (w.from + step - 1) / step * step; t < w.to; t += step {
		c.Ticks = append(c.Ticks, mark{scale(t), t.String()})
	}
	for _, f := range v.faultsOf(0) {
		if f.from <= w.to && f.to >= w.from {
			c.Marks = append(c.Marks, mark{max(scale(f.from), 0), f.what})
		}
	}
	return c
}

// thin is the width of the thinnest bar, in thousandths. Those that begin no
// further than that behind another of their kind are drawn as one: a page is
// looked at as a whole.
const thin = 0.3

// add adds a bar, or draws a thin one together with the one before it.
func (r *row) add(b bar) {
	for i := len(r.Bars) - 1; i >= 0 && i >= len(r.Bars)-8; i-- {
		if o := &r.Bars[i]; o.Class == b.Class && b.X < o.X+o.W && b.X+b.W <= o.X+2*thin && o.W < 2*thin { //mutant:judge-each-bar-drawn
			o.W, o.Title = max(o.W, b.X+b.W-o.X), "several"
			return
		}
	}
	r.Bars = append(r.Bars, b)
}

// round is a step of time that people like, at least d.
func round(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if n*unit >= d {
				return n * unit
			}
		}
	}
}

// A spell is a time for which a fault was on.
type spell struct {
	window
	what string
}

// faultsOf are the faults of a process, or of the store.
func (v *view) faultsOf(p int) (all []spell) {
	on := map[Fault]time.Duration{}
	for i := range v.Events {
		switch e := &v.Events[i]; {
		case e.Proc != p || e.Fault == offset:
		case e.Do == struck:
			on[e.Fault] = e.At
		case e.Do == mended:
			all = append(all, spell{window{on[e.Fault], e.At}, fmt.Sprintf("%s, met %d", e.Fault, e.Hits)})
		}
	}
	return all
}
