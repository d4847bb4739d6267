package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

func ratioRow(title, contender string, b better, ratio float64, at time.Time) row {
	r := oneRow(contender, "p50", b, 1)
	r.Row, r.Reference, r.Ratio, r.RatioQuartiles = title, "redislock", &ratio, &[2]float64{ratio / 2, ratio * 2}
	r.Rounds, r.Time, r.Machine, r.Commit = 15, at, "go1.26, linux/amd64", "0123456789abcdef"
	return r
}

func TestChartShowsTheNewestOfEachRow(t *testing.T) {
	first, second := time.Unix(1e9, 0).UTC(), time.Unix(2e9, 0).UTC()
	throughput := ratioRow("Redis: <pairs>", "holdfast", more, 0.5, first)
	other := throughput
	other.Column = "a second figure of the row"
	all := bars([]row{
		throughput, other,
		ratioRow("Redis: <pairs>", "redislock", more, 1, first),
		ratioRow("Redis: <pairs>", "holdfast, context.Background()", more, 1, first),
		ratioRow("Redis: <pairs>", "holdfast", more, 0.8, second),
		ratioRow("Redis: hand-off", "holdfast", less, 0.25, first),
		{Row: "MongoDB", Missing: "no server"},
	})
	if len(all) != 2 || all[0].beat != (spread{0.4, 0.8, 1.6}) || all[1].beat != (spread{2, 4, 8}) {
		t.Errorf("got %+v", all)
	}
}

func TestChartIsAnImage(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	var out strings.Builder
	err := drawChart([]row{
		ratioRow("Redis: <pairs>", "holdfast", more, 0.5, at),
		ratioRow("The command: to run a program that does nothing", "holdfast run x -- true", less, 5.9, at),
		ratioRow("Redlock: one dead", "holdfast", more, 200, at),
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"prefers-color-scheme: dark", "Redis: &lt;pairs&gt;", "0.50 (0.25–1.00) beside redislock", "2001-09-09", "commit 0123456789ab;",
		"The command: run (run x -- true)", `class="ahead"`, `class="behind"`, `class="ahead beyond"`, ">1/4<", "of 15 rounds",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if err := drawChart(nil, io.Discard); err == nil {
		t.Error("a chart without rows is no error")
	}
}
