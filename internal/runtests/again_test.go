package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOnlyWhatMayBeChanceIsRunAgain(t *testing.T) {
	const redis, prove = "m/redisstore", "m/internal/prove"
	of := func(pkg, test, printed string) failure {
		return failure{dir: ".", pkg: pkg, test: test, printed: printed, what: pkg + "." + test}
	}
	for _, c := range []struct {
		name     string
		failures []failure
		want     []string
	}{
		{"a test on real time, once for all of its subtests", []failure{of(redis, "TestWait/a", ""), of(redis, "TestWait/b", ""), of(redis, "TestWait", "")}, []string{redis + ".TestWait"}},
		{"a judgement", []failure{of(prove, "TestWait", "")}, nil},
		{"a test in a bubble", []failure{of("m", "TestWait", ""), of("m/store/queue", "TestWait", "")}, nil},
		{"a promise of safety", []failure{of(redis, "TestSuite/never_two_hold", ""), of(redis, "TestSuite", "")}, nil},
		{"a mutant that was missed", []failure{of(redis, "TestTheTestsCatchEachMutantOfX/two_hold", ""), of(redis, "TestTheTestsCatchEachMutantOfX", "")}, []string{redis + ".TestTheTestsCatchEachMutantOfX"}},
		{"a comparison by chance", []failure{of(redis, "TestDifferential", "")}, nil},
		{"a data race", []failure{of(redis, "TestWait", "WARNING: DATA RACE\n")}, nil},
		{"a panic", []failure{of(redis, "TestWait", "panic: nil map\n")}, nil},
		{"what is no test", []failure{{what: redis}}, nil},
		{"too many", []failure{of(redis, "TestA", ""), of(redis, "TestB", ""), of(redis, "TestC", ""), of(redis, "TestD", ""), of(redis, "TestE", "")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range (&report{failures: c.failures}).toRunAgain() {
				got = append(got, f.what)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("runs %q again, want %q", got, c.want)
			}
		})
	}
}

// The whole of it on a real module: a test that fails at first only, one that
// fails the fourth time it is run, one that always fails.
func TestATestThatPassesEachTimeAloneIsUnsteady(t *testing.T) {
	for _, c := range []struct {
		name     string
		fails    string // at which of its runs, counted from one
		ok       bool
		contains string
	}{
		{"at first", "n == 1", true, "unsteady, a defect of the test or worse: example.org/x/redisstore.TestA failed, and then passed 3 times alone\n"},
		{"at first and again", "n == 1 || n == 4", false, "failed: example.org/x/redisstore.TestA\n"},
		{"always", "true", false, "failed: example.org/x/redisstore.TestA\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			count := filepath.Join(t.TempDir(), "count")
			dir := module(t, "package redisstore", `func TestA(t *testing.T) {
	f, err := os.OpenFile(`+"`"+count+"`"+`, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("x")
	info, _ := f.Stat()
	if n := info.Size(); `+c.fails+` {
		t.Errorf("run %d", n)
	}
}

func TestB(t *testing.T) {}
`)
			var out strings.Builder
			r := newReport(&out, false)
			if err := run(r, dir, []string{"-count=1"}); err != nil {
				t.Fatal(err)
			}
			if len(r.failures) != 1 {
				t.Fatalf("%d failures", len(r.failures))
			}
			r.runAgain([]string{"-count=1"})
			if ok := r.finish(true); ok != c.ok || !strings.Contains(out.String(), c.contains) {
				t.Errorf("verdict %v, want %v and %q in\n%s", ok, c.ok, c.contains, out.String())
			}
		})
	}
}
