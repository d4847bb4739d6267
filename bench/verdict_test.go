package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pairsOf has n pairs; in `larger` of them this tree has the larger figure.
func pairsOf(larger, n int, b better) compared {
	c := compared{key: rowKey{"redis", "a row", "holdfast", "a column"}, better: b}
	for i := range n {
		now := 90.0
		if i < larger {
			now = 110
		}
		c.old, c.now = append(c.old, 100), append(c.now, now)
	}
	return c
}

func TestVerdictIsWhatChanceDoesNotExplain(t *testing.T) {
	for _, c := range []struct {
		larger, n int
		better    better
		want      string
	}{
		{15, 15, less, "slower"}, {14, 15, less, "slower"}, {13, 15, less, ""}, {8, 15, less, ""}, {1, 15, less, "faster"},
		{15, 15, more, "faster"}, {1, 15, more, "slower"}, {2, 15, more, ""},
		{leastPairs, leastPairs, less, "slower"}, {leastPairs - 1, leastPairs - 1, less, ""}, {0, 0, less, ""},
	} {
		if got := pairsOf(c.larger, c.n, c.better).verdict(); got != c.want {
			t.Errorf("%d of %d larger, %s is better: got %q, want %q", c.larger, c.n, c.better, got, c.want)
		}
	}
	same := pairsOf(14, 15, less)
	for range 20 { // equal pairs decide nothing
		same.old, same.now = append(same.old, 100), append(same.now, 100)
	}
	if got := same.verdict(); got != "slower" {
		t.Errorf("with equal pairs: got %q, want slower", got)
	}
}

func TestChanceOfHeads(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want float64
	}{{0, 15, 1}, {15, 15, 1.0 / 32768}, {14, 15, 16.0 / 32768}, {1, 2, 0.75}} {
		if got := atLeast(c.k, c.n); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d of %d: got %v, want %v", c.k, c.n, got, c.want)
		}
	}
}

func oneRow(contender, column string, b better, v float64) row {
	return row{Suite: "redis", Row: "a row", Contender: contender, Column: column, Unit: "ns", Better: b, Value: &v}
}

func TestRowsOfTwoTreesArePaired(t *testing.T) {
	sum := oneRow("holdfast", "stalled", less, 3)
	sum.Sum = true
	var old, now [][]row
	for range leastPairs {
		old = append(old, []row{oneRow("holdfast", "p50", less, 1000), oneRow("holdfast", "size", neither, 1), sum, oneRow("holdfast", "gone", less, 1)})
		now = append(now, []row{oneRow("holdfast", "size", neither, 2), oneRow("holdfast", "p50", less, 1500), sum, {Suite: "redis", Row: "MongoDB", Missing: "none"}})
	}
	all, only := pairUp(old, now)
	if len(all) != 1 || all[0].key.column != "p50" || len(all[0].old) != leastPairs {
		t.Fatalf("got %+v", all)
	}
	var out strings.Builder
	if err := printCompared(&out, all, only); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 µs", "1.5 µs", "slower beyond the noise:\n  a row: holdfast: p50: new ÷ old 1.50 (1.50–1.50), less is better\n", "faster beyond the noise: no row",
		"measured in one tree only: a row: holdfast: gone", "measured in one tree only: MongoDB",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// The copy has the files of the commit, without later changes.
func TestCommitIsCopied(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	write("old")
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	write("new")
	to := filepath.Join(t.TempDir(), "old")
	if err := copyCommit(t.Context(), root, "HEAD", to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "file")); err != nil || string(text) != "old" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestUnknownCommitIsRefused(t *testing.T) {
	s := setup{rounds: 1, out: &strings.Builder{}}
	if err := compare(t.Context(), s, "no-such-commit", []string{"memory"}); err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("got %v, want an error that names the commit", err)
	}
	if err := compare(t.Context(), s, "HEAD", []string{"nonsense"}); err == nil || !strings.Contains(err.Error(), `unknown suite "nonsense"`) {
		t.Errorf("got %v", err)
	}
}
