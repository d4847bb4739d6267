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
	Class string // wait, whole, part, or fault
	Title string
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
}

// telling is a violation with its events as lines.
type telling struct {
	Violation
	Lines []string
}

// HTML writes the report with the timeline of each name.
func (r *Report) HTML(w io.Writer, h *History) error {
	v := newView(h)
	s := scene{Report: r, Good: r.Verdict.Proved}
	for i := range r.Verdict.Violations {
		t := telling{Violation: r.Verdict.Violations[i]}
		for _, e := range t.Events {
			t.Lines = append(t.Lines, fmt.Sprintf("%12.3f ms  %s", float64(e.At)/1e6, e.line()))
		}
		s.Windows = append(s.Windows, t)
	}
	for _, n := range r.Run.Names {
		s.Charts = append(s.Charts, v.chart(n))
	}
	return pageTemplate().Execute(w, &s)
}

// chart draws one name.
func (v *view) chart(n Name) chart {
	c := chart{Name: n.Name, Mode: n.Mode, Height: rowHeight*v.Run.Processes + 20}
	scale := func(at time.Duration) float64 { return 1000 * float64(at) / float64(max(v.end, 1)) }
	at := func(from, to time.Duration, class, title string, args ...any) bar {
		from, to = max(from, 0), min(to, v.end)
		return bar{scale(from), max(scale(to)-scale(from), 0.3), class, fmt.Sprintf(title, args...)}
	}
	for p := 1; p <= v.Run.Processes; p++ {
		r := row{Process: p, Y: rowHeight * (p - 1)}
		r.Bars = append(r.Bars, v.faultsOf(p, at)...)
		for _, x := range v.byName[n.Name] {
			if x.proc != p {
				continue
			}
			if !x.granted {
				r.Bars = append(r.Bars, at(x.call, min(x.back, x.died), "wait", "claim %d, %s: %s", x.op, x.verb, x.err))
				continue
			}
			r.Bars = append(r.Bars, at(x.call, x.back, "wait", "claim %d, %s: waited %v", x.op, x.verb, short(x.back-x.call)))
			for _, s := range x.spans {
				class := "part"
				if s.weight == n.Limit {
					class = "whole"
				}
				r.Bars = append(r.Bars, at(s.from, s.to, class, "claim %d, %s: token %d, weight %d, held %v", x.op, x.verb, s.token, s.weight, short(s.to-s.from)))
			}
			if x.lost != never {
				r.Bars = append(r.Bars, at(x.lost, x.lost, "lost", "claim %d: lost", x.op))
			}
		}
		c.Rows = append(c.Rows, r)
	}
	step := max(v.end/10, 1)
	for t := time.Duration(0); t < v.end; t += step {
		c.Ticks = append(c.Ticks, mark{scale(t), t.Round(100 * time.Millisecond).String()})
	}
	for _, b := range v.faultsOf(0, at) {
		c.Marks = append(c.Marks, mark{b.X, b.Title})
	}
	return c
}

// faultsOf are the faults of a process, or of the store.
func (v *view) faultsOf(p int, at func(from, to time.Duration, class, title string, args ...any) bar) (all []bar) {
	on := map[Fault]time.Duration{}
	for i := range v.Events {
		switch e := &v.Events[i]; {
		case e.Proc != p:
		case e.Do == struck:
			on[e.Fault] = e.At
		case e.Do == mended:
			all = append(all, at(on[e.Fault], e.At, "fault", "%s, met %d", e.Fault, e.Hits))
		}
	}
	return all
}
