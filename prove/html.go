package prove

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed report.html
var page string

// pageTemplate is parsed when a page is written: parsing takes longer than all else
// that the command does before main.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("report").Parse(page)) })

// A chart is the timeline of one name: its waits and holds, with the faults in the
// background. It has a row for each process or, for a violation, for each claim.
type chart struct {
	Name, Mode string
	Rows       []row
	Overlaps   []bar  // when more was held than the limit, drawn over all rows
	Marks      []mark // faults of the store, drawn over all rows
	Ticks      []mark
	Height     int
}

type row struct {
	Label, Title string
	Y            int
	Bars         []bar
}

// A bar is an interval on a row. X and W are in percent of the row.
type bar struct {
	X, W  float64
	Class string // wait, whole, part, lost or fault
	Title string
	Text  string // written in the bar, if it is wide enough
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
	Plain   []string // the verdict, see plain

	Worked time.Duration
	Waits  string
}

// telling is a violation with its events as lines, and the chart of its name at
// that time.
type telling struct {
	Violation
	Lines  []string
	Charts []chart
}

// HTML writes the report with the timeline of each name.
func (r *Report) HTML(w io.Writer, h *History) error {
	v := newView(h)
	s := scene{Report: r, Good: r.Verdict.Proved, Plain: r.plain(), Worked: r.worked(), Waits: r.waits()}
	for i := range r.Verdict.Violations {
		t := telling{Violation: r.Verdict.Violations[i]}
		for _, e := range t.Events {
			t.Lines = append(t.Lines, fmt.Sprintf("%12.3f ms  %s", float64(e.At)/1e6, e.line()))
		}
		if n, ok := v.names[t.Name]; ok {
			margin := (t.To - t.From) / 5
			t.Charts = append(t.Charts, v.holds(n, &t.Violation, window{max(t.From-margin, 0), min(t.To+margin, v.end)}))
		}
		s.Windows = append(s.Windows, t)
	}
	for _, n := range r.Run.Names {
		s.Charts = append(s.Charts, v.chart(n, window{0, v.end}))
	}
	return pageTemplate().Execute(w, &s)
}

// A pen draws what happened in a window.
type pen struct {
	*view
	window
}

func (p *pen) scale(at time.Duration) float64 {
	return 100 * float64(at-p.from) / float64(max(p.to-p.from, 1))
}

// draw adds a bar to the row, if any of it is in the window.
func (p *pen) draw(r *row, from, to time.Duration, class, title string, args ...any) {
	if from > p.to || to < p.from {
		return
	}
	from, to = min(max(from, p.from), p.to), max(min(to, p.to), p.from)
	b := bar{X: p.scale(from), W: max(p.scale(to)-p.scale(from), thin), Class: class, Title: fmt.Sprintf(title, args...)}
	if _, token, ok := strings.Cut(b.Title, "token "); ok && b.W > 7 && (class == "whole" || class == "part") {
		token, _, _ = strings.Cut(token, ",")
		b.Text = "…" + token[max(0, len(token)-6):]
	}
	r.add(b)
}

// claim draws one claim.
func (p *pen) claim(r *row, n Name, x *claim) {
	back := min(x.back, x.died, p.end)
	if !x.granted {
		p.draw(r, x.call, back, "wait", "claim %d, %s: %s", x.op, x.verb, x.err)
		return
	}
	p.draw(r, x.call, back, "wait", "claim %d, %s: waited %v", x.op, x.verb, short(x.back-x.call))
	for _, s := range x.spans {
		class := "part"
		if s.weight == n.Limit {
			class = "whole"
		}
		token := ""
		if s.token != 0 {
			token = fmt.Sprintf("token %d, ", s.token)
		}
		p.draw(r, s.from, s.to, class, "claim %d, %s: %sweight %d, held %v", x.op, x.verb, token, s.weight, short(s.to-s.from))
	}
	if x.lost != never {
		p.draw(r, x.lost, x.lost, "lost", "claim %d: lost", x.op)
	}
}

func (p *pen) faults(r *row, proc int) {
	for _, f := range p.faultsOf(proc) {
		p.draw(r, f.from, f.to, "fault", "%s", f.what)
	}
}

// frame adds what spans all rows: ticks, faults of the store, and overlaps.
func (p *pen) frame(c *chart) {
	c.Height = rowHeight*len(c.Rows) + 20
	step := round((p.to - p.from) / 10)
	for t := (p.from + step - 1) / step * step; t < p.to; t += step {
		c.Ticks = append(c.Ticks, mark{p.scale(t), t.String()})
	}
	for _, f := range p.faultsOf(0) {
		if f.from <= p.to && f.to >= p.from {
			c.Marks = append(c.Marks, mark{max(p.scale(f.from), 0), f.what})
		}
	}
	over := row{}
	for _, o := range p.overlaps(p.names[c.Name]) {
		p.draw(&over, o.from, o.to, "overlap", "held by too many for %v", short(o.to-o.from))
	}
	c.Overlaps = over.Bars
}

// chart draws what happened to one name in a window, in a row for each process.
func (v *view) chart(n Name, w window) chart {
	c, p := chart{Name: n.Name, Mode: n.Mode}, &pen{v, w}
	for proc := 1; proc <= v.Run.Processes; proc++ {
		r := row{Label: fmt.Sprintf("process %d", proc), Y: rowHeight * (proc - 1)}
		p.faults(&r, proc)
		for _, x := range v.byName[n.Name] {
			if x.proc == proc {
				p.claim(&r, n, x)
			}
		}
		c.Rows = append(c.Rows, r)
	}
	p.frame(&c)
	return c
}

// mostRows is the maximum number of rows around a violation.
const mostRows = 24

// holds draws what happened to the name of a violation, in a row for each hold, in the
// order in which they began. It always includes the violation's own claims.
func (v *view) holds(n Name, of *Violation, w window) chart {
	c, p := chart{Name: n.Name, Mode: n.Mode}, &pen{v, w}
	left := mostRows - len(of.claims)
	var all []*claim
	for _, x := range v.byName[n.Name] {
		mine := slices.Contains(of.claims, x)
		near := x.granted && x.back <= w.to && x.end() >= w.from
		if mine || near && left > 0 {
			left -= count(!mine)
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *claim) int { return cmp.Compare(a.back, b.back) })
	for i, x := range all {
		r := row{Label: fmt.Sprintf("process %d, claim %d", x.proc, x.op), Title: x.who(x.token), Y: rowHeight * i}
		p.faults(&r, x.proc)
		p.claim(&r, n, x)
		c.Rows = append(c.Rows, r)
	}
	p.frame(&c)
	return c
}

// overlaps returns the times in which more of a name was held than its limit.
func (v *view) overlaps(n Name) (all []window) {
	var in []span // spans that have begun and not ended
	for _, s := range v.spansOf(n.Name) {
		in = append(slices.DeleteFunc(in, func(o span) bool { return o.to <= s.from }), s)
		sum, to := int64(0), s.to
		for _, o := range in {
			sum, to = sum+o.weight, min(to, o.to)
		}
		if sum > n.Limit { //mutant:prove-overlaps-are-marked
			all = append(all, window{s.from, to})
		}
	}
	return all
}

// thin is the width of the thinnest bar, in percent. A thin bar that begins no
// further than that after another of its class is drawn together with it: at the
// scale of a page they look like one.
const thin = 0.03

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

// round returns a round duration, at least d.
func round(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if n*unit >= d {
				return n * unit
			}
		}
	}
}

// A spell is a time in which a fault was on.
type spell struct {
	window
	what string
}

// faultsOf returns the faults of process p, or of the store if p is 0.
func (v *view) faultsOf(p int) (all []spell) {
	on := map[Fault]time.Duration{}
	for i := range v.Events {
		switch e := &v.Events[i]; {
		case e.Proc != p || e.Fault == offset:
		case e.Do == struck:
			on[e.Fault] = e.At
		case e.Do == mended:
			all = append(all, spell{window{on[e.Fault], e.At}, fmt.Sprintf("%s, hits %d", e.Fault, e.Hits)})
		}
	}
	return all
}
