package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// chartOf draws the rows of a file written with -json.
func chartOf(file string, out io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := readRows(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return drawChart(rows, out)
}

// A bar compares holdfast with the reference of a row. Above one, holdfast is better.
type bar struct {
	row  row
	beat spread
}

// bars returns the bars of holdfast in the newest run of each row: of the first column that has
// a ratio to a reference.
func bars(rows []row) (all []bar) {
	index := map[rowKey]int{}
	first := map[rowKey]string{} // the column of each row and contender
	for _, r := range rows {
		if !isOurs(r.Contender) || strings.Contains(r.Contender, "Background") || isOurs(r.Reference) || r.Ratio == nil || r.RatioQuartiles == nil {
			continue
		}
		key := r.key()
		key.column = ""
		if _, ok := first[key]; !ok {
			first[key] = r.Column
		}
		if first[key] != r.Column {
			continue
		}
		b := bar{r, spread{r.RatioQuartiles[0], *r.Ratio, r.RatioQuartiles[1]}}
		if r.Better == less {
			b.beat = spread{1 / b.beat.high, 1 / b.beat.middle, 1 / b.beat.low}
		}
		if b.beat.low <= 0 || math.IsInf(b.beat.high, 0) {
			continue // it does not fit on the scale
		}
		if at, ok := index[key]; !ok {
			index[key] = len(all)
			all = append(all, b)
		} else if !r.Time.Before(all[at].row.Time) {
			all[at] = b
		}
	}
	return all
}

// The dimensions of the picture, in pixels.
const (
	chartWidth = 1180
	chartRow   = 22
	chartTop   = 64
	chartFrom  = 460 // where the scale begins
	chartTo    = 780
	chartMost  = 64 // the end of the scale; bars beyond it are drawn there
)

// chartStyle has the colors for a light page and for a dark one. The picture has its own
// background, so it is readable on both.
const chartStyle = `<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.head { font-size: 15px; font-weight: 600 }
.quiet { fill: #59636e }
.ground { fill: #ffffff }
.line { stroke: #d1d9e0 }
.one { stroke: #59636e }
.ahead { fill: #1a7f37; stroke: #1a7f37 }
.behind { fill: #bc4c00; stroke: #bc4c00 }
.beyond { fill-opacity: 0; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.quiet { fill: #9198a1 }
.ground { fill: #0d1117 }
.line { stroke: #3d444d }
.one { stroke: #9198a1 }
.ahead { fill: #3fb950; stroke: #3fb950 }
.behind { fill: #f0883e; stroke: #f0883e }
}
</style>
`

// drawChart writes an SVG: for each row a dot at the median of the ratios, and a line from the
// first to the third quartile. The scale is logarithmic: twice as fast is as far from one as
// half as fast.
func drawChart(rows []row, out io.Writer) error {
	all := bars(rows)
	if len(all) == 0 {
		return errors.New("no row compares holdfast with a reference")
	}
	low, high := 0.5, 2.0
	for _, b := range all {
		low, high = min(low, b.beat.low), max(high, b.beat.high)
	}
	low, high = max(math.Pow(2, math.Floor(math.Log2(low))), 1.0/chartMost), min(math.Pow(2, math.Ceil(math.Log2(high))), chartMost)
	x := func(ratio float64) float64 {
		ratio = min(max(ratio, low), high)
		return chartFrom + (chartTo-chartFrom)*math.Log(ratio/low)/math.Log(high/low)
	}
	newest := slices.MaxFunc(all, func(a, b bar) int { return a.row.Time.Compare(b.row.Time) }).row
	bottom := chartTop + chartRow*len(all)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", chartWidth, bottom+16)
	fmt.Fprintf(&b, "<title>holdfast beside the reference of each row</title>\n%s", chartStyle)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d"/>`+"\n", chartWidth, bottom+16)
	label := func(class string, x float64, y int, anchor, text string) {
		fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
	}
	label("head", 12, 22, "start", "holdfast beside the reference of each row: to the right of 1 it is faster")
	few, many := fewestAndMost(all)
	label("quiet", 12, 40, "start", fmt.Sprintf("%s; %s; commit %.12s; median and quartiles of the ratios of %s rounds",
		newest.Time.Format("2006-01-02"), newest.Machine, newest.Commit, fromTo(few, many)))
	step := 2
	if high/low > 1<<8 { // so that the numbers do not touch
		step = 4
	}
	for tick := 1; 1/float64(tick) >= low; tick *= step {
		chartTick(&b, x(1/float64(tick)), bottom, oneOver(tick), label)
	}
	for tick := step; float64(tick) <= high; tick *= step {
		chartTick(&b, x(float64(tick)), bottom, fmt.Sprint(tick), label)
	}
	for i, one := range all {
		y := chartTop + chartRow*i + chartRow/2
		class := "ahead"
		if one.beat.middle < 1 {
			class = "behind"
		}
		label("row", chartFrom-10, y+4, "end", chartLabel(one.row))
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke-width="3"/>`+"\n", class, x(one.beat.low), x(one.beat.high), y, y)
		if one.beat.middle < low || one.beat.middle > high {
			class += " beyond"
		}
		fmt.Fprintf(&b, `<circle class="%s" cx="%.1f" cy="%d" r="4"/>`+"\n", class, x(one.beat.middle), y)
		label("quiet", chartTo+12, y+4, "start", fmt.Sprintf("%s beside %s", one.beat, one.row.Reference))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func chartTick(b *strings.Builder, x float64, bottom int, text string, label func(class string, x float64, y int, anchor, text string)) {
	class := "line"
	if text == "1" {
		class = "one"
	}
	fmt.Fprintf(b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", class, x, x, chartTop-2, bottom)
	label("quiet", x, chartTop-8, "middle", text)
}

func oneOver(n int) string {
	if n == 1 {
		return "1"
	}
	return fmt.Sprintf("1/%d", n)
}

// fewestAndMost returns the smallest and the largest number of rounds of the bars.
func fewestAndMost(all []bar) (fewest, most int) {
	fewest = all[0].row.Rounds
	for _, b := range all {
		fewest, most = min(fewest, b.row.Rounds), max(most, b.row.Rounds)
	}
	return fewest, most
}

func fromTo(from, to int) string {
	if from == to {
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// chartLabel is the title of a row, shortened.
func chartLabel(r row) string {
	title := strings.NewReplacer("uncontended lock and unlock", "pair", ", a name each", "", ", from the call of unlock to the return of lock", "",
		" between two processes", "", "to run a program that does nothing", "run", ", without its begin and end", "").Replace(r.Row)
	if r.Contender != "holdfast" {
		title += " (" + strings.TrimPrefix(strings.TrimPrefix(r.Contender, "holdfast, "), "holdfast ") + ")"
	}
	return title
}
