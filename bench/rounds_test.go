package main

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// shows is a runner that returns these figures, one a round.
func shows(name, column string, each ...float64) runner {
	i := -1
	return runner{name, func(context.Context) (measure, error) {
		i++
		return measure{column: each[i]}, nil
	}}
}

func measured(t *testing.T, s setup, of table) (text string, rows []row) {
	t.Helper()
	var out, objects strings.Builder
	s.out, s.rows = &out, json.NewEncoder(&objects)
	if err := of.measure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(strings.NewReader(objects.String()))
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), rows
}

func TestQuartilesLieAroundTheMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want spread
	}{
		{[]float64{5, 1, 4, 2, 3}, spread{2, 3, 4}},
		{[]float64{2, 1}, spread{1.25, 1.5, 1.75}},
		{[]float64{7}, spread{7, 7, 7}},
	} {
		if got := spreadOf(c.of); got != c.want {
			t.Errorf("%v: got %v, want %v", c.of, got, c.want)
		}
	}
	given := []float64{3, 1, 2}
	if spreadOf(given); given[0] != 3 {
		t.Error("spreadOf changed the order of the rounds")
	}
}

// The ratio is the median of the ratios of the rounds, which is not the ratio of the medians.
func TestRatioIsTakenWithinEachRound(t *testing.T) {
	of := table{title: "A title", reference: "redislock", columns: []column{rate("pairs/s")}, runners: []runner{
		shows("holdfast", "pairs/s", 10, 200, 90), shows("redislock", "pairs/s", 10, 100, 100),
	}}
	text, rows := measured(t, setup{rounds: 3, suite: "redis", server: "Redis 7"}, of)
	for _, want := range []string{"A title", "1.00 (0.95–1.50)", "÷ redislock", "tries again each 10 ms", "github.com/bsm/redislock v", "does not have: fencing tokens, order, readers"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if len(rows) != 2 {
		t.Fatalf("got %d rows", len(rows))
	}
	r := rows[0]
	if r.Suite != "redis" || r.Row != "A title" || r.Contender != "holdfast" || r.Column != "pairs/s" || r.Unit != "1/s" || r.Better != more ||
		*r.Value != 90 || *r.Quartiles != [2]float64{50, 145} || r.Reference != "redislock" || *r.Ratio != 1 || *r.RatioQuartiles != [2]float64{0.95, 1.5} ||
		r.Rounds != 3 || r.Server != "Redis 7" || r.Machine == "" || r.Commit == "" || r.Time.IsZero() {
		t.Errorf("got %+v", r)
	}
	if r := rows[1]; !strings.HasPrefix(r.Version, "github.com/bsm/redislock v") || r.Settings == "" || r.Lacks != nothingMore {
		t.Errorf("got %+v", r)
	}
}

// The best library of each round counts. A row that is no library does not.
func TestBestPeerIsTheBestOfEachRound(t *testing.T) {
	runners := func(column string) []runner {
		return []runner{
			shows("holdfast", column, 4, 4), shows("redislock", column, 8, 2), shows("rueidislock", column, 2, 8), shows(bare, column, 100, 1),
		}
	}
	for _, c := range []struct {
		column column
		want   float64
	}{{rate("pairs/s"), 0.5}, {elapsed("p50").beside(), 2}} {
		_, rows := measured(t, setup{rounds: 2}, table{reference: bestPeer, columns: []column{c.column}, runners: runners(c.column.name)})
		if got := *rows[0].Ratio; got != c.want {
			t.Errorf("%s: holdfast ÷ best peer: got %v, want %v", c.column.name, got, c.want)
		}
	}
}

func TestHandoffIsAlsoReportedInRoundTrips(t *testing.T) {
	round := map[string]measure{
		"holdfast": {"hand-off p50": 500, "release p50": 400}, "redislock": {"stalled": 1}, ping: {"round trip": 200},
	}
	overPing(round)
	if m := round["holdfast"]; m[overRelease] != 0.5 || m[releaseOver] != 2 {
		t.Errorf("got %v", m)
	}
	if _, ok := round["redislock"][overRelease]; ok {
		t.Error("a hand-off without a measurement has a figure")
	}
}

func TestHoldfastCanBeMeasuredAlone(t *testing.T) {
	_, rows := measured(t, setup{rounds: 1, ours: true}, table{reference: "redislock", columns: []column{rate("pairs/s")}, runners: []runner{
		shows("redislock", "pairs/s", 1), shows("holdfast", "pairs/s", 2),
	}})
	if len(rows) != 1 || rows[0].Contender != "holdfast" || rows[0].Ratio != nil {
		t.Errorf("got %+v", rows)
	}
}

func TestContenderWithoutANoteIsRefused(t *testing.T) {
	s := setup{rounds: 1, out: &strings.Builder{}}
	err := rounds(t.Context(), s, "A title", "", []column{rate("pairs/s")}, []runner{shows("somebody", "pairs/s", 1)})
	if err == nil || !strings.Contains(err.Error(), `there is no note about the contender "somebody"`) {
		t.Errorf("got %v, want an error that names the contender", err)
	}
}

// A missing row says why, and has no figure.
func TestAbsentRowSaysWhy(t *testing.T) {
	var out, objects strings.Builder
	s := setup{out: &out, rows: json.NewEncoder(&objects), suite: "mongo"}
	if err := s.absent("MongoDB", errNoMongoDB.Error()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "MongoDB: not measured, as no server is named") {
		t.Errorf("got %q", out.String())
	}
	if got := objects.String(); strings.Contains(got, "value") || !strings.Contains(got, `"missing":"not measured`) {
		t.Errorf("got %s", got)
	}
}

func TestASlowMeasurementRunsAsOftenAsAsked(t *testing.T) {
	if got := (setup{rounds: 15}).atMost(3).rounds; got != 3 {
		t.Errorf("got %d, want 3", got)
	}
	if got := (setup{rounds: 15, asked: true}).atMost(3).rounds; got != 15 {
		t.Errorf("got %d, want 15", got)
	}
}

func TestSmallRatiosHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0.00951: "0.00951", 0.66: "0.66", 33.2: "33.20", math.Inf(1): "+Inf"} {
		if got := asRatio(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
