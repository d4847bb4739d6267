//go:build linux || darwin

package prove

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
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

// found reports whether the run has a violation of check 1, and checks that the report names its cause.
func found(t *testing.T, r *Report) bool {
	t.Helper()
	for _, w := range r.Verdict.Violations {
		if w.Guilty < 0 || w.Cause == "" {
			t.Errorf("check %d, %s: got no guilty operation or no cause: %q", w.Check, w.Text, w.Cause)
		}
	}
	return slices.ContainsFunc(r.Verdict.Violations, func(w Violation) bool { return w.Check == int(exclusion) })
}

// Workers in other languages: the right lock is proved, and the defect of the other is found.
func TestALockOfAnyLanguageIsProvedAndItsBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, worker := range [][]string{{"python3", "testdata/workers/setnx.py"}, {"sh", "testdata/workers/setnx.sh"}} {
		t.Run(worker[0], func(t *testing.T) {
			t.Parallel()
			r := proved(t, byLines(t, 1, worker...))
			if text := strings.Join(r.Verdict.NotJudged, "\n"); len(r.Verdict.NotJudged) != 3 || !strings.Contains(text, "no fencing tokens") {
				t.Errorf("got not judged: %s, want three checks, one for its missing tokens", text)
			}
			for seed := uint64(1); ; seed++ {
				o := byLines(t, seed, append(worker, "naive")...)
				o.For, o.Stop, o.Faults, o.Names = time.Minute, true, []Fault{stopLong}, 1 // a process that resumes finds that another has the lock
				if began := time.Now(); found(t, prove(t, o)) {
					t.Logf("found after %v", time.Since(began).Round(time.Second))
					return
				}
				if seed == 10 {
					t.Fatal("ten minutes of runs did not find two claims that hold it at the same time")
				}
			}
		})
	}
}

// A worker that ends, writes nonsense, or does not exist is reported: the run is no proof.
func TestAFailingWorkerByLinesIsReported(t *testing.T) {
	t.Parallel()
	for says, script := range map[string]string{
		"ended by itself":           "echo ready; read -r line; echo granted",
		"was expected":              "echo ready; while read -r line; do echo perhaps; done",
		`first line must be "ready`: "echo what",
		"did not start":             "exit 1",
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

// A try without an answer from the server differs from one that a holder's lock has refused.
func TestTheWorkerInShellSaysWhetherATryIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/uptime"); err != nil {
		t.Skip("the worker in shell needs Linux")
	}
	for says, cli := range map[string]string{
		"granted":         "echo OK",
		"refused":         "echo",
		"error no answer": "exit 1",
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte("#!/bin/sh\n"+cli+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "testdata/workers/setnx.sh")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), urlVar+"=redis://localhost:1", ttlVar+"=500")
		cmd.Stdin = strings.NewReader("lock a 0\n")
		out, err := cmd.Output()
		if want := "ready\n" + says + "\n"; err != nil || string(out) != want {
			t.Errorf("redis-cli that does %q: %v, %q, want %q", cli, err, out, want)
		}
	}
}

// Whatever a worker does instead of its task, the run ends, and soon.
func TestAWorkerByLinesCannotHoldUpTheRun(t *testing.T) {
	t.Parallel()
	// It obtains nothing, and reports an error: to refuse a try of a free name would be a wrong lock.
	const works = "while read -r what name wait; do case $what in lock) echo error busy;; check) echo held;; *) echo released;; esac; done"
	for name, c := range map[string]struct{ says, script string }{
		"goes on after a wrong first line": {`first line must be "ready"`, "echo what; cat"},
		"goes on after that and its stdin": {`first line must be "ready"`, "echo what; exec sleep 600"},
		"leaves what keeps its stderr":     {"0 grants were seen", "sleep 600 & echo ready; " + works},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			v := prove(t, &Options{For: time.Second, Processes: 2, Faults: []Fault{restart}, Own: &Own{Name: name, Lines: []string{"sh", "-c", c.script}}}).Verdict
			why := fmt.Sprint(v.TooLittle)
			if v.Proved || len(v.Violations) > 0 || !strings.Contains(why, c.says) || strings.Contains(why, "does not end") {
				t.Errorf("got proved %v, too little: %s, violations: %+v", v.Proved, why, v.Violations)
			}
			if took := time.Since(began); took >= startBy { // to wait for a worker would take that, or ten minutes
				t.Errorf("the run took %v", took)
			}
		})
	}
}

// The run does not wait for a worker that writes nothing and does not end when its stdin does.
func TestAWorkerByLinesThatIsNeverReadyIsReported(t *testing.T) {
	out, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer says.Close()
	hears, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hears.Close()
	w := &lineWorker{in: in, out: bufio.NewReader(out), hear: out, died: func() string { return "" }}
	fmt.Fprint(says, "read")
	if err := w.ready(10 * time.Millisecond); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "flushed") {
		t.Errorf("half a line and no more: %v, want ErrUnavailable", err)
	}
}
