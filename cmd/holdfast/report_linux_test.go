package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// traceProgram is the directory of the program that sends spans.
var traceProgram = sync.OnceValues(func() (dir string, err error) {
	if dir, err = plainCommand(); err == nil {
		cmd := exec.Command("go", "build", "-ldflags=-w", "-tags", "holdfast_patient", "-o", filepath.Join(dir, report.TraceProgram), "./"+report.TraceProgram)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = fmt.Errorf("%w\n%s", failed, out)
		}
	}
	return dir, err
})

// traced passes the command the program that sends spans, and the address of a collector.
func traced(t *testing.T, url string, env ...string) func(*exec.Cmd) {
	t.Helper()
	dir, err := traceProgram()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *exec.Cmd) {
		c.Env = append(c.Env, "PATH="+os.Getenv("PATH")+":"+dir, "OTEL_EXPORTER_OTLP_ENDPOINT="+url)
		c.Env = append(c.Env, env...)
	}
}

// receive starts a collector, which delivers the spans that it gets.
func receive(t *testing.T) (got chan *otlp.Span, url string) {
	got = make(chan *otlp.Span, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var in collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got <- in.ResourceSpans[0].ScopeSpans[0].Spans[0]
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return got, s.URL
}

// run --trace sends one span, whose parent is the span of its caller. The command's own spans are below it.
func TestASpanOfTheRunIsSent(t *testing.T) {
	t.Parallel()
	got, url := receive(t)
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s := beginWith(t, fileStore(t), traced(t, url, "TRACEPARENT=00-"+trace+"-"+parent+"-01"), "--trace", "--", "sh", "-c", "echo $TRACEPARENT > told; exit 3")
	s.exits(3)
	if len(got) != 1 {
		t.Fatalf("got %d spans, want 1", len(got))
	}
	span := <-got
	if is := hex.EncodeToString(span.TraceId); is != trace {
		t.Errorf("got a span of trace %s, want %s", is, trace)
	}
	if is := hex.EncodeToString(span.ParentSpanId); is != parent {
		t.Errorf("got a span with parent %q, want %s", is, parent)
	}
	if told, want := s.text("told"), "00-"+trace+"-"+hex.EncodeToString(span.SpanId)+"-01\n"; told != want {
		t.Errorf("the command got %q, want %q", told, want)
	}
	if stderr := s.text("stderr"); stderr != "" {
		t.Errorf("got stderr %s, want none", stderr)
	}
}

// The variables of OpenTelemetry alone, which may be meant for the command, cause no spans.
func TestNothingIsSentUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	got, url := receive(t)
	s := beginWith(t, fileStore(t), traced(t, url, "TRACEPARENT=none"), "--", "sh", "-c", "echo $TRACEPARENT > told")
	s.exits(0)
	if n, told := len(got), s.text("told"); n > 0 || told != "none\n" {
		t.Errorf("got %d spans, and the command got %q", n, told)
	}
}

// The exit code is the job's, even if the metrics or the span fail. A line reports the failure.
func TestTheExitCodeIsTheJobsAtAnyAnswerOfTheCollector(t *testing.T) {
	t.Parallel()
	for what, addr := range map[string]string{"no answer": silentPort(t), "connection refused": testserver.ClosedPort(t)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			want := []string{"holdfast: x: metrics not written: a new file beside /none/x.prom: no such file or directory", "holdfast: x: span not sent: http://" + addr + "/v1/traces: " + what}
			s := beginWith(t, fileStore(t), traced(t, "http://"+addr, impatientEnv+"=1"), "--trace", "--metrics-file", "/none/x.prom", "--", "sh", "-c", "exit 7")
			s.exits(7)
			lines := strings.Split(strings.TrimSpace(s.text("stderr")), "\n")
			if !slices.Equal(lines, want) {
				t.Errorf("got stderr %q, want %q", lines, want)
			}
		})
	}
}

// A program that hangs while it sends delays the job for a bounded time.
func TestAReporterThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	hangs := filepath.Join(t.TempDir(), "hangs")
	if err := os.WriteFile(hangs, []byte("#!/bin/sh\ntouch \"$0.begun\"\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for within := 50 * time.Millisecond; ; within *= 2 { // a busy machine takes longer to start it
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			done <- sendBy(ctx, &account{}, make(chan os.Signal), hangs)
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "not within ") {
				t.Fatalf("got %v, want an error with the time", err)
			}
		case <-time.After(patience):
			t.Fatal("run waits for the reporter")
		}
		if _, err := os.Stat(hangs + ".begun"); err == nil {
			return
		}
	}
}

// gauges reads a file as Prometheus does: the value of each metric, by the value of the label outcome too if it has one.
func gauges(t *testing.T, file, name string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	all := map[string]float64{}
	for metric, family := range families {
		if family.GetHelp() == "" || family.GetType().String() != "GAUGE" {
			t.Errorf("%s: got type %v and help %q", metric, family.GetType(), family.GetHelp())
		}
		for _, m := range family.GetMetric() {
			key := metric
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() == "outcome":
					key += "/" + l.GetValue()
				case l.GetName() != "name" || l.GetValue() != name:
					t.Errorf("%s: got label %s=%q, want the name %q", metric, l.GetName(), l.GetValue(), name)
				}
			}
			all[key] = m.GetGauge().GetValue()
		}
	}
	return all
}

// run --metrics-file writes a file for Prometheus in one step, whatever bytes the name has.
func TestMetricsOfTheRunAreWritten(t *testing.T) {
	t.Parallel()
	const name = "a\"b\\c\nd ü{}"
	store, dir := fileStore(t), t.TempDir()
	file := filepath.Join(dir, "nightly.prom")
	run := func(code int, args ...string) map[string]float64 {
		t.Helper()
		s := beginCommand(t, store, nil, append([]string{"run", name, "--metrics-file", file}, args...)...)
		s.exits(code)
		return gauges(t, file, name)
	}
	before := float64(time.Now().Unix())
	first := run(0, "--", "true")
	at := first["holdfast_run_last_success_timestamp_seconds"]
	if first["holdfast_run_outcome/succeeded"] != 1 || at < before || at != first["holdfast_run_end_timestamp_seconds"] || first["holdfast_run_start_timestamp_seconds"] > at {
		t.Errorf("after a success: got %v", first)
	}
	second := run(5, "--", "sh", "-c", "exit 5")
	if second["holdfast_run_outcome/failed"] != 1 || second["holdfast_run_outcome/succeeded"] != 0 || second["holdfast_run_exit_code"] != 5 {
		t.Errorf("after a failure: got %v", second)
	}
	if second["holdfast_run_last_success_timestamp_seconds"] != at {
		t.Errorf("after a failure: got last success %v, want %v", second["holdfast_run_last_success_timestamp_seconds"], at)
	}
	for outcome, args := range map[string][]string{"not-run": {"--", "/none"}, "timeout": {"--at-most-for", "0.1", "--", "sleep", "100"}} {
		code := map[string]int{"not-run": exitNotFound, "timeout": exitTimeout}[outcome]
		if is := run(code, args...); is["holdfast_run_outcome/"+outcome] != 1 {
			t.Errorf("want outcome %s: got %v", outcome, is)
		}
	}
	holder := beginCommand(t, store, nil, "run", name, "--", "sh", "-c", "touch held; sleep 1000")
	soon(t, "the command holds the lock", func() bool { return holder.exists("held") })
	for outcome, args := range map[string][]string{"refused": {"-n", "--", "true"}, "skipped": {"-n", "--skip-ok", "--", "true"}} {
		code := map[string]int{"refused": exitHeld, "skipped": 0}[outcome]
		is := run(code, args...)
		if _, held := is["holdfast_run_held_seconds"]; held || is["holdfast_run_outcome/"+outcome] != 1 {
			t.Errorf("want outcome %s: got %v", outcome, is)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("got files %v in the directory of the metrics (%v)", files, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got mode %v (%v), want 0644, as the collector runs as another user", info.Mode(), err)
	}
}

// A reader during a write gets the old text or the new one: each write makes a new file.
func TestMetricsFilesAreReplacedAtomically(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.prom")
	a := &account{Metrics: file, Names: []string{"x"}, Outcome: report.Succeeded, Began: time.Now(), Ended: time.Now()}
	if err := a.writeMetrics(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a.Outcome = report.Failed
	if err := a.writeMetrics(); err != nil {
		t.Fatal(err)
	}
	if old, err := io.ReadAll(reader); err != nil || !strings.Contains(string(old), `outcome="succeeded"} 1`) {
		t.Errorf("a reader with the old file open got (%v):\n%s", err, old)
	}
}

func TestMetricsOrATraceThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for file, said := range map[string]string{"x.txt": ".prom", "": "--metrics-file is empty"} {
		s := begin(t, fileStore(t), "--metrics-file", file, "--", "touch", "ran")
		s.exits(exitUsage)
		if !strings.Contains(s.text("stderr"), said) || s.exists("ran") {
			t.Errorf("%q: got stderr %s", file, s.text("stderr"))
		}
	}
}
