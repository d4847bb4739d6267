package prometheus

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// command builds the holdfast command.
func command(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "holdfast.exe")
	build := exec.Command("go", "build", "-o", name, "./cmd/holdfast")
	build.Dir, build.Env = "../../..", append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// These are the alerts on the metrics that holdfast run --metrics-file writes.
func TestEachAlertOnAJobFiresForWhatItNames(t *testing.T) {
	holdfast := command(t)
	store := "file:" + t.TempDir()
	for _, c := range []struct {
		alert string
		code  int
		args  []string
		after time.Duration // at the latest
	}{
		{"", 0, []string{"--store", store, "--", "true"}, 0},
		{"JobNotDone", 0, []string{"--store", store, "--", "true"}, 26*time.Hour + 2*time.Minute},
		{"JobEndedHalfDone", 124, []string{"--store", store, "--at-most-for", "200ms", "-k", "100ms", "--", "sleep", "60"}, time.Minute},
		{"LockStoreAway", 69, []string{"--store", "redis://127.0.0.1:1", "--", "true"}, 12 * time.Minute},
	} {
		t.Run(c.alert, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "nightly.prom")
			run := exec.Command(holdfast, slices.Concat([]string{"run", "nightly", "-n", "--metrics-file", file}, c.args)...)
			out, err := run.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || run.ProcessState.ExitCode() != c.code {
				t.Fatalf("%v, want exit code %d\n%s", err, c.code, out)
			}
			text, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer text.Close()
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(text)
			if err != nil {
				t.Fatal(err)
			}
			var all []samples // the file does not change
			for at := time.Now(); len(all) < 27*60; at = at.Add(interval) {
				all = append(all, samples{at, slices.Collect(maps.Values(families))})
			}
			if c.alert == "" {
				all = all[:25*60]
			}
			is := fired(t, all)
			delete(is, "NightlyDidNotRun") // this alert is about a program
			f, ok := is[c.alert]
			if ok != (c.alert != "") || f.from > c.after {
				t.Errorf("fired: %v, want %q within %v", is, c.alert, c.after)
			}
		})
	}
}
