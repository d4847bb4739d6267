package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

// lastSuccess is the metric that later runs keep.
const lastSuccess = "holdfast_run_last_success_timestamp_seconds"

// metrics is text in the format of Prometheus, for the textfile collector.
type metrics struct {
	bytes.Buffer
	name string // the label of all metrics
}

// gauge adds a metric with one value.
func (m *metrics) gauge(metric, help string, value float64) {
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s gauge\n", metric, help, metric)
	m.sample(metric, "", value)
}

// sample adds a value; outcome is its other label, if it is not empty.
func (m *metrics) sample(metric, outcome string, value float64) {
	labels := `name="` + escapeLabel(m.name) + `"`
	if outcome != "" {
		labels += `,outcome="` + outcome + `"`
	}
	fmt.Fprintf(m, "%s{%s} %s\n", metric, labels, strconv.FormatFloat(value, 'f', -1, 64))
}

func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value) //mutant:report-labels-escaped
}

// writeMetrics writes the file in one step: the collector never reads half of it.
func (a *account) writeMetrics() error {
	m := &metrics{name: strings.ToValidUTF8(strings.Join(a.Names, ","), "\uFFFD")}
	m.gauge("holdfast_run_start_timestamp_seconds", "When holdfast run was started.", seconds(a.Began))
	m.gauge("holdfast_run_end_timestamp_seconds", "When holdfast run had ended and given the lock back.", seconds(a.Ended))
	m.gauge("holdfast_run_exit_code", "The exit code of holdfast run.", float64(a.Code))
	waited := a.Ended
	if !a.Held.IsZero() {
		waited = a.Held
		m.gauge("holdfast_run_held_seconds", "How long the lock was held. Absent if it was not obtained.", a.Ended.Sub(a.Held).Seconds())
	}
	m.gauge("holdfast_run_wait_seconds", "How long holdfast run waited for the lock.", waited.Sub(a.Began).Seconds())
	const outcome = "holdfast_run_outcome"
	fmt.Fprintf(m, "# HELP %s 1 for how the run ended, 0 for each other way.\n# TYPE %s gauge\n", outcome, outcome)
	for _, o := range report.Outcomes {
		value := 0.0
		if o == a.Outcome {
			value = 1
		}
		m.sample(outcome, o, value)
	}
	last := successBefore(a.Metrics, m.name) //mutant:report-last-success-kept
	if a.Outcome == report.Succeeded {
		last = seconds(a.Ended)
	}
	if last > 0 {
		m.gauge(lastSuccess, "When a run that wrote this file last succeeded. Absent if none has.", last)
	}
	return replaceFile(a.Metrics, m.Bytes())
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// successBefore returns the last success of the name from the present file; 0 if there is none.
func successBefore(file, name string) float64 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, lastSuccess+`{name="`+escapeLabel(name)+`"} `)
		if at, err := strconv.ParseFloat(strings.TrimSpace(value), 64); ok && err == nil {
			return at
		}
	}
	return 0
}

// replaceFile writes a temporary file in the same directory, which everybody may read and no
// collector reads, and renames it.
func replaceFile(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") //mutant:report-written-beside
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {              // it names the temporary file, which nobody knows
		err = fmt.Errorf("a new file beside %s: %w", file, failed.Err) //mutant:report-names-the-file
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
