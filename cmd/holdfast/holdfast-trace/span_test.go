package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
	"github.com/holdfast-go/holdfast/internal/mutant"
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
		http.Error(w, "not a request with spans", http.StatusBadRequest)
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

const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// ended is a run that has failed, below a span of others.
func ended() *report.Account {
	at := time.Now()
	environment := map[string]string{"TRACEPARENT": "00-" + traceID + "-" + parentID + "-01", "TRACESTATE": "a=b"}
	return &report.Account{
		Span: report.NewSpan(func(name string) string { return environment[name] }), Names: []string{"x"}, IDs: []string{"1"}, Tokens: []int64{7}, Program: "backup.sh",
		Began: at.Add(-3 * time.Second), Held: at.Add(-2 * time.Second), Ended: at, Outcome: report.Failed, Code: 3,
	}
}

// One span is sent, as the variables of OpenTelemetry say.
func TestASpanIsSentAsTheVariablesSay(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
			r, url := receive(t, protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
			t.Setenv("OTEL_SERVICE_NAME", "backup")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=blue")
			a := ended()
			if err := send(t.Context(), a, os.Getenv); err != nil {
				t.Fatal(err)
			}
			if len(r.got) != 1 {
				t.Fatalf("got %d requests, want 1", len(r.got))
			}
			c := <-r.got
			if key := c.headers["x-key"]; !slices.Equal(key, []string{"a b"}) {
				t.Errorf("got header %q, want a b", key)
			}
			about := values(c.spans[0].Resource.Attributes)
			if about["service.name"] != "backup" || about["team"] != "blue" || about["host.name"] == "" {
				t.Errorf("got resource %v", about)
			}
			span := c.spans[0].ScopeSpans[0].Spans[0]
			if trace, id, parent := hex.EncodeToString(span.TraceId), hex.EncodeToString(span.SpanId), hex.EncodeToString(span.ParentSpanId); trace != traceID || id != a.Span.ID || parent != parentID || span.TraceState != "a=b" {
				t.Errorf("got span %s of trace %s, parent %q (%q); want %s of %s, parent %s", id, trace, parent, span.TraceState, a.Span.ID, traceID, parentID)
			}
			has := values(span.Attributes)
			if span.Name != "holdfast run" || has["holdfast.outcome"] != "failed" || has["process.exit.code"] != "3" || has["process.executable.name"] != "backup.sh" || has["holdfast.tokens"] != "1" {
				t.Errorf("got span %q with %v", span.Name, has)
			}
			if span.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("got status %v, want an error", span.Status)
			}
			if at := func(t time.Time) uint64 { return uint64(t.UnixNano()) }; len(span.Events) != 1 || span.Events[0].TimeUnixNano != at(a.Held) || span.StartTimeUnixNano != at(a.Began) || span.EndTimeUnixNano != at(a.Ended) {
				t.Errorf("span from %d to %d, with events %v", span.StartTimeUnixNano, span.EndTimeUnixNano, span.Events)
			}
		})
	}
}

// What the variables switch off is not sent, and what they ask for and is not here is told.
func TestTheVariablesSwitchItOff(t *testing.T) {
	r, url := receive(t, "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	for variable, says := range map[string]string{
		"OTEL_SDK_DISABLED=true": "", "OTEL_TRACES_EXPORTER=none": "", "OTEL_TRACES_SAMPLER=always_off": "",
		"OTEL_TRACES_EXPORTER=zipkin": "only otlp and none", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json": "only http/protobuf and grpc",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			if err := send(t.Context(), ended(), os.Getenv); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("send: %v, want %q", err, says)
			}
			if n := len(r.got); n > 0 {
				t.Errorf("got %d requests, want none", n)
			}
		})
	}
}

// silent is a collector that never answers. asked is closed when something has come.
func silent(t *testing.T) (addr string, asked <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	came := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return
		}
		close(came)
		_, _ = io.Copy(io.Discard, c)
	}()
	return l.Addr().String(), came
}

// A collector that never answers ends with the context, and one that is away at once.
func TestACollectorThatDoesNotAnswerIsAnError(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, what := range []string{"hangs", "away"} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(what+"_"+strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				addr := gone.Addr().String()
				if what == "hangs" {
					var asked <-chan struct{}
					addr, asked = silent(t)
					go func() {
						select {
						case <-asked:
							cancel()
						case <-ctx.Done():
						}
					}()
				}
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+addr)
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000") // its own bound does not end it
				done := make(chan error, 1)
				go func() { done <- send(ctx, ended(), os.Getenv) }()
				select {
				case err := <-done:
					if err == nil {
						t.Error("send returned no error, but the collector did not answer")
					}
				case <-time.After(30 * time.Second):
					t.Error("send did not return within 30s")
				}
			})
		}
	}
}

func TestTheTestsCatchEachMutantOfTheSpan(t *testing.T) {
	const pkg = "cmd/holdfast/holdfast-trace"
	mutant.Catch(t, []mutant.Broken{
		{Name: "the span has no parent", Pkg: pkg, Test: "TestASpanIsSentAsTheVariablesSay/grpc", Edits: []mutant.Edit{mutant.At("trace-has-parent", mutant.Value("trace.ContextWithSpanContext(WAS, trace.SpanContext{})"))}},
		{Name: "it is sent though it is switched off", Pkg: pkg, Test: "TestTheVariablesSwitchItOff", Edits: []mutant.Edit{mutant.At("trace-off", mutant.Cond("false"))}},
		{Name: "the exporter has no end", Pkg: pkg, Test: "TestACollectorThatDoesNotAnswerIsAnError", Edits: []mutant.Edit{mutant.At("trace-bounded", mutant.Return("w.SpanExporter.ExportSpans(context.Background(), spans)"))}},
	})
}
