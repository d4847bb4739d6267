package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// of runs events through a report and returns what it printed and its verdict.
func of(t *testing.T, strict bool, events ...event) (string, bool) {
	t.Helper()
	var in strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(line)
		in.WriteByte('\n')
	}
	var out strings.Builder
	r := newReport(&out, false)
	if _, _, err := r.read(strings.NewReader(in.String()), "."); err != nil {
		t.Fatal(err)
	}
	ok := r.finish(strict)
	return out.String(), ok
}

// test is the events of one test of package p.
func test(name, action, printed string) []event {
	return []event{
		{Action: "run", Package: "p", Test: name},
		{Action: "output", Package: "p", Test: name, Output: "=== RUN   " + name + "\n"},
		{Action: "output", Package: "p", Test: name, Output: printed},
		{Action: action, Package: "p", Test: name},
	}
}

func join(all ...[]event) (events []event) {
	for _, e := range all {
		events = append(events, e...)
	}
	return events
}

func TestVerdict(t *testing.T) {
	good := test("TestGood", "pass", "")
	passed, failed := event{Action: "pass", Package: "p"}, event{Action: "fail", Package: "p"}
	noServer := test("TestServer", "skip", "    x_test.go:1: no redis-server: run make servers\n")
	lacks := test("TestDelay", "skip", "    x_test.go:1: the store lacks \"lock delay\": sessions end\n")
	for _, c := range []struct {
		name   string
		strict bool
		events []event
		ok     bool
		closes string
		says   string
	}{
		{"all passed", true, join(good, []event{passed}), true, "1 passed, 0 failed, 0 skipped", "ok\tp"},
		{"a failed test shows what it printed", false, join(good, test("TestBad", "fail", "    x_test.go:1: 3 is not 4\n"), []event{failed}), false, "1 passed, 1 failed, 0 skipped", "3 is not 4"},
		{"a failed test is named at the end", false, join(good, test("TestBad", "fail", ""), []event{failed}), false, "1 passed, 1 failed, 0 skipped", "\nfailed: p.TestBad\n"},
		{"a skip for want of a server fails a strict run", true, join(good, noServer, []event{passed}), false, "1 passed, 1 failed, 1 skipped", "run make servers"},
		{"a skip for want of a server is named in any run", false, join(good, noServer, []event{passed}), true, "1 passed, 0 failed, 1 skipped", "p.TestServer"},
		{"a skip on the list passes a strict run", true, join(good, lacks, []event{passed}), true, "1 passed, 0 failed, 1 skipped", "p.TestDelay"},
		{"a panic shows the test that did not end", false, join(good,
			[]event{{Action: "output", Package: "p", Test: "TestHang", Output: "panic: test timed out\n"}, failed}), false, "1 passed, 1 failed, 0 skipped", "panic: test timed out"},
		{"a package that fails after its tests passed", false, join(good,
			[]event{{Action: "output", Package: "p", Output: "leaked goroutine\n"}, failed}), false, "1 passed, 1 failed, 0 skipped", "leaked goroutine"},
		{"a package that does not build", false, join(good,
			[]event{{Action: "build-output", ImportPath: "q", Output: "undefined: x\n"}, {Action: "fail", Package: "q"}}), false, "1 passed, 1 failed, 0 skipped", "undefined: x"},
		{"nothing ran", false, []event{{Action: "skip", Package: "p"}}, false, "0 passed, 1 failed, 0 skipped", "no test passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, ok := of(t, c.strict, c.events...)
			if ok != c.ok {
				t.Errorf("verdict %v, want %v", ok, c.ok)
			}
			if !strings.HasSuffix(out, "\n"+c.closes+"\n") {
				t.Errorf("does not close with %q", c.closes)
			}
			if !strings.Contains(out, c.says) {
				t.Errorf("does not say %q", c.says)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestVerboseShowsWhatPassedTestsLogged(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, true)
	for _, e := range join(test("TestSeed", "pass", "    x_test.go:1: seed 42\n"), test("TestQuiet", "pass", "--- PASS: TestQuiet (0.00s)\n")) {
		r.add(e)
	}
	if want := "--- p.TestSeed\n    x_test.go:1: seed 42\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestVerboseCutsLongLogs(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, true)
	for _, e := range test("TestLong", "pass", strings.Repeat("line\n", longestLog+5)) {
		r.add(e)
	}
	if n := strings.Count(out.String(), "line\n"); n != longestLog || !strings.Contains(out.String(), "… 5 lines more") {
		t.Errorf("shows %d lines:\n%s", n, out.String())
	}
}

// The whole of run against real modules: one that passes, one whose test
// fails, one that does not build, one without packages.
func TestRunOfRealModules(t *testing.T) {
	for _, c := range []struct {
		name, code, test string
		wantErr          bool
		failed, passed   int
	}{
		{"passes", "package x", "func TestA(t *testing.T) {}", false, 0, 1},
		{"fails", "package x", `func TestA(t *testing.T) { t.Error("no") }`, false, 1, 0},
		{"does not build", "package x; var y int = nil", "func TestA(t *testing.T) {}", false, 1, 0},
		{"exits", "package x", "func TestA(t *testing.T) { os.Exit(3) }", false, 1, 0},
		{"empty", "", "", true, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := module(t, c.code, c.test)
			var out strings.Builder
			r := newReport(&out, false)
			err := run(r, dir, []string{"-count=1"})
			if (err != nil) != c.wantErr || len(r.failures) != c.failed || r.passed != c.passed {
				t.Errorf("error %v, %d failed, %d passed; want error %v, %d, %d\n%s", err, len(r.failures), r.passed, c.wantErr, c.failed, c.passed, out.String())
			}
		})
	}
}

func TestTheSlowestAreNamed(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, true)
	for i, seconds := range []float64{1, 70, 3} {
		pkg := string(rune('a' + i))
		r.add(event{Action: "pass", Package: pkg, Test: "TestX", Elapsed: seconds / 2})
		r.add(event{Action: "pass", Package: pkg, Test: "TestX/part", Elapsed: seconds / 2})
		r.add(event{Action: "pass", Package: pkg, Elapsed: seconds})
	}
	r.finish(false)
	for _, want := range []string{
		"slowest of 3 packages, which took 74s one after another:\n\t  70.00s b\n\t   3.00s c\n\t   1.00s a\n",
		"slowest of 3 tests, which took 37s one after another:\n\t  35.00s b.TestX\n\t   1.50s c.TestX\n\t   0.50s a.TestX\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want\n%s\nin\n%s", want, out.String())
		}
	}
}

func TestAStoreWithoutAServerIsNamedAtTheEnd(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for uri, want := range map[string]string{"": "mongostore (on a stand-in, internal/mongosim)", "mongodb://host": "none"} {
		t.Setenv("HOLDFAST_TEST_MONGODB", uri)
		var out strings.Builder
		newReport(&out, false).finish(false)
		if line := "stores tested without a real server: " + want + "\n"; !strings.Contains(out.String(), line) {
			t.Errorf("with %q there is no %q in\n%s", uri, line, out.String())
		}
	}
}
