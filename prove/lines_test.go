//go:build linux || darwin

package prove

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// byLines are the options of a run with workers by lines on a Redis.
func byLines(t *testing.T, seed uint64, lines ...string) *Options {
	t.Helper()
	if _, err := exec.LookPath(lines[0]); err != nil {
		t.Skipf("%s is not installed: %v", lines[0], err)
	}
	return &Options{
		URL: "redis://" + testserver.SharedRedis(t), For: 3 * time.Second, Processes: 4, Seed: seed, TTL: time.Second,
		Own: &Own{Name: "SET NX on Redis", Lines: lines},
	}
}

// found reports whether the run has a violation of check 1, and checks that its cause is told.
func found(t *testing.T, r *Report) bool {
	t.Helper()
	for _, w := range r.Verdict.Violations {
		if w.Guilty < 0 || w.Cause == "" {
			t.Errorf("check %d, %s: no guilty operation, or no cause %q", w.Check, w.Text, w.Cause)
		}
	}
	return slices.ContainsFunc(r.Verdict.Violations, func(w Violation) bool { return w.Check == int(exclusion) })
}

// Workers in other languages: the right lock is proved, and what is wrong with the other is found.
func TestALockOfAnyLanguageIsProvedAndItsBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, worker := range [][]string{{"python3", "testdata/workers/setnx.py"}, {"sh", "testdata/workers/setnx.sh"}} {
		t.Run(worker[0], func(t *testing.T) {
			t.Parallel()
			r := proved(t, byLines(t, 1, worker...))
			if text := strings.Join(r.Verdict.NotJudged, "\n"); len(r.Verdict.NotJudged) != 3 || !strings.Contains(text, "no fencing tokens") {
				t.Errorf("not judged: %s", text)
			}
			for seed := uint64(1); ; seed++ {
				o := byLines(t, seed, append(worker, "naive")...)
				o.For, o.Stop, o.Faults = time.Minute, true, []Fault{stopLong}
				if began := time.Now(); found(t, prove(t, o)) {
					t.Logf("found after %v", time.Since(began).Round(time.Second))
					return
				}
				if seed == 3 {
					t.Fatal("two who hold it together are not found in three minutes")
				}
			}
		})
	}
}

// A worker that ends, says nothing sensible, or is not there is told of: it is no proof.
func TestAWorkerByLinesThatDoesNotWorkIsToldOf(t *testing.T) {
	t.Parallel()
	for says, script := range map[string]string{
		"ended by itself":           "echo ready; read -r line; echo granted",
		"was expected":              "echo ready; while read -r line; do echo perhaps; done",
		`first line must be "ready`: "echo what",
	} {
		o := byLines(t, 1, "sh", "-c", script)
		o.For, o.Faults = time.Second, []Fault{latency}
		if v := prove(t, o).Verdict; v.Proved || !strings.Contains(fmt.Sprint(v.TooLittle), says) {
			t.Errorf("%s: proved %v, too little: %q", script, v.Proved, v.TooLittle)
		}
	}
	o := byLines(t, 1, "sh")
	o.Own.Lines = []string{"/nowhere/worker"}
	if _, err := Prove(t.Context(), o); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("no worker: %v", err)
	}
}
