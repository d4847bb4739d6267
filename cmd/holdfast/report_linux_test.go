package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// A collected is one request to a collector.
type collected struct {
	headers map[string][]string // in lower case
	spans   []*otlp.ResourceSpans
}

// A receiver is a collector that speaks OTLP over HTTP and gRPC.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got chan collected
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var in collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &in); err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no request for spans", http.StatusBadRequest)
		return
	}
	headers := map[string][]string{}
	for name, values := range req.Header {
		headers[strings.ToLower(name)] = values
	}
	r.got <- collected{headers, in.ResourceSpans}
	out, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(out)
}

func (r *receiver) Export(ctx context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	r.got <- collected{headers, in.ResourceSpans}
	return &collector.ExportTraceServiceResponse{}, nil
}

// receive starts a receiver for a protocol, and returns its URL.
func receive(t *testing.T, protocol string) (r *receiver, url string) {
	r = &receiver{got: make(chan collected, 10)}
	if protocol == "http/protobuf" {
		s := httptest.NewServer(r)
		t.Cleanup(s.Close)
		return r, s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return r, "http://" + l.Addr().String()
}

func values(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_ArrayValue:
			m[a.Key] = fmt.Sprint(len(v.ArrayValue.Values))
		}
	}
	return m
}

// run --trace sends one span, as the variables of OpenTelemetry say, and the command's own spans are below it.
func TestASpanOfTheRunIsSent(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
			t.Parallel()
			r, url := receive(t, protocol)
			const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			s := beginWith(t, fileStore(t), func(c *exec.Cmd) {
				c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b",
					"OTEL_SERVICE_NAME=backup", "OTEL_RESOURCE_ATTRIBUTES=team=blue", "TRACEPARENT=00-"+trace+"-"+parent+"-01", "TRACESTATE=a=b")
			}, "--trace", "--", "sh", "-c", "echo $TRACEPARENT > told; exit 3")
			s.exits(3)
			if len(r.got) != 1 {
				t.Fatalf("%d requests came, want 1", len(r.got))
			}
			c := <-r.got
			if key := c.headers["x-key"]; !slices.Equal(key, []string{"a b"}) {
				t.Errorf("the header is %q", key)
			}
			about := values(c.spans[0].Resource.Attributes)
			if about["service.name"] != "backup" || about["team"] != "blue" || about["host.name"] == "" {
				t.Errorf("the resource is %v", about)
			}
			span := c.spans[0].ScopeSpans[0].Spans[0]
			if is := hex.EncodeToString(span.TraceId); is != trace {
				t.Errorf("it is of the trace %s, want %s", is, trace)
			}
			if is := hex.EncodeToString(span.ParentSpanId); is != parent || span.TraceState != "a=b" {
				t.Errorf("it is below %q, %q, want %s", is, span.TraceState, parent)
			}
			if told, want := s.text("told"), "00-"+trace+"-"+hex.EncodeToString(span.SpanId)+"-01\n"; told != want {
				t.Errorf("the command was told %q, want %q", told, want)
			}
			has := values(span.Attributes)
			if span.Name != "holdfast run" || has["holdfast.outcome"] != "failed" || has["process.exit.code"] != "3" || has["process.executable.name"] != "sh" || has["holdfast.tokens"] != "1" {
				t.Errorf("the span %q has %v", span.Name, has)
			}
			if span.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("its status is %v", span.Status)
			}
			if len(span.Events) != 1 || span.Events[0].TimeUnixNano < span.StartTimeUnixNano || span.Events[0].TimeUnixNano > span.EndTimeUnixNano {
				t.Errorf("it lasts from %d to %d, with %v", span.StartTimeUnixNano, span.EndTimeUnixNano, span.Events)
			}
		})
	}
}

// Variables of OpenTelemetry alone, which may be there for the command, send nothing.
func TestNothingIsSentUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	r, url := receive(t, "http/protobuf")
	s := beginWith(t, fileStore(t), func(c *exec.Cmd) {
		c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "TRACEPARENT=none")
	}, "--", "sh", "-c", "echo $TRACEPARENT > told")
	s.exits(0)
	if n, told := len(r.got), s.text("told"); n > 0 || told != "none\n" {
		t.Errorf("%d requests came, and the command was told %q", n, told)
	}
}

// The exit code is the job's, whatever becomes of the metrics and the span, and a line says what that was.
func TestTheExitCodeIsTheJobsWhateverTheCollectorDoes(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for what, addr := range map[string]string{"hangs": silent.Addr().String(), "away": gone.Addr().String()} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(what+"_"+strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
				t.Parallel()
				s := beginWith(t, fileStore(t), func(c *exec.Cmd) {
					c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+addr, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol)
				}, "--trace", "--metrics-file", "/none/x.prom", "--", "sh", "-c", "exit 7")
				s.exits(7)
				lines := strings.Split(strings.TrimSpace(s.text("stderr")), "\n")
				if len(lines) != 2 || !strings.Contains(lines[0], "metrics not written") || !strings.Contains(lines[1], "span not sent") {
					t.Errorf("it says %q", lines)
				}
			})
		}
	}
}

// A program that hangs while it sends holds the job up for a time, and no longer.
func TestAReporterThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	hangs := filepath.Join(t.TempDir(), "hangs")
	if err := os.WriteFile(hangs, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := sendBy(hangs, []byte("{}"), make(chan os.Signal), 50*time.Millisecond)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "not within 50ms") {
			t.Errorf("%v, want one that tells the time", err)
		}
	case <-time.After(patience):
		t.Error("it is waited for")
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
			t.Errorf("%s has the type %v and the help %q", metric, family.GetType(), family.GetHelp())
		}
		for _, m := range family.GetMetric() {
			key := metric
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() == "outcome":
					key += "/" + l.GetValue()
				case l.GetName() != "name" || l.GetValue() != name:
					t.Errorf("%s has the label %s=%q, want the name %q", metric, l.GetName(), l.GetValue(), name)
				}
			}
			all[key] = m.GetGauge().GetValue()
		}
	}
	return all
}

// run --metrics-file writes what Prometheus reads, in one step, whatever the name has in it.
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
		t.Errorf("after a success: %v", first)
	}
	second := run(5, "--", "sh", "-c", "exit 5")
	if second["holdfast_run_outcome/failed"] != 1 || second["holdfast_run_outcome/succeeded"] != 0 || second["holdfast_run_exit_code"] != 5 {
		t.Errorf("after a failure: %v", second)
	}
	if second["holdfast_run_last_success_timestamp_seconds"] != at {
		t.Errorf("after a failure the last success is %v, want %v", second["holdfast_run_last_success_timestamp_seconds"], at)
	}
	for outcome, args := range map[string][]string{"not-run": {"--", "/none"}, "timeout": {"--at-most-for", "0.1", "--", "sleep", "100"}} {
		code := map[string]int{"not-run": exitNotFound, "timeout": exitTimeout}[outcome]
		if is := run(code, args...); is["holdfast_run_outcome/"+outcome] != 1 {
			t.Errorf("want %s: %v", outcome, is)
		}
	}
	holder := beginCommand(t, store, nil, "run", name, "--", "sh", "-c", "touch held; sleep 1000")
	soon(t, "it holds", func() bool { return holder.exists("held") })
	for outcome, args := range map[string][]string{"refused": {"-n", "--", "true"}, "skipped": {"-n", "--skip-ok", "--", "true"}} {
		code := map[string]int{"refused": exitHeld, "skipped": 0}[outcome]
		is := run(code, args...)
		if _, held := is["holdfast_run_held_seconds"]; held || is["holdfast_run_outcome/"+outcome] != 1 {
			t.Errorf("want %s: %v", outcome, is)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("beside the metrics are %v (%v)", files, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("its mode is %v (%v): the collector runs as another user", info.Mode(), err)
	}
}

// Who reads while a run writes has the old text or the new one: the file is another one each time.
func TestMetricsAreReplacedAndNotWrittenOver(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.prom")
	a := &account{Metrics: file, Names: []string{"x"}, Outcome: outcomeSucceeded, Began: time.Now(), Ended: time.Now()}
	if err := a.writeMetrics(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a.Outcome = outcomeFailed
	if err := a.writeMetrics(); err != nil {
		t.Fatal(err)
	}
	if old, err := io.ReadAll(reader); err != nil || !strings.Contains(string(old), `outcome="succeeded"} 1`) {
		t.Errorf("who had it open reads (%v):\n%s", err, old)
	}
}

func TestMetricsOrATraceThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "--metrics-file", "x.txt", "--", "touch", "ran")
	s.exits(exitUsage)
	if !strings.Contains(s.text("stderr"), ".prom") || s.exists("ran") {
		t.Errorf("it says %s", s.text("stderr"))
	}
}

func TestATraceparentIsReadAsW3CWritesIt(t *testing.T) {
	t.Parallel()
	const trace, id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, ok := range map[string]bool{
		"00-" + trace + "-" + id + "-00":                      true,
		"01-" + trace + "-" + id + "-01-more":                 true,
		"00-" + trace + "-" + id + "-01-more":                 false,
		"ff-" + trace + "-" + id + "-01":                      false,
		"00-" + strings.ToUpper(trace) + "-" + id + "-01":     false,
		"00-" + strings.Repeat("0", 32) + "-" + id + "-01":    false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + trace + "-" + id:                              false,
		"":                                                    false,
	} {
		s := newSpan(func(name string) string { return map[string]string{"TRACEPARENT": text}[name] })
		if is := s.Trace == trace; is != ok || len(s.Trace) != 32 || len(s.ID) != 16 || s.ID == id {
			t.Errorf("%q: %+v", text, s)
		}
	}
}
