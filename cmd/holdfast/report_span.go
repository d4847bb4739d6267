//go:build !holdfast_lean

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sendSpan sends the span of the run, as the OTEL_ variables say: most of them the SDK and its exporters read by themselves.
func (a *account) sendSpan(ctx context.Context, getenv func(string) string) (err error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil
	}
	switch kind := cmp.Or(getenv("OTEL_TRACES_EXPORTER"), "otlp"); kind {
	case "otlp":
	case "none":
		return nil
	default:
		return fmt.Errorf("OTEL_TRACES_EXPORTER=%s: only otlp and none are here", kind)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(e error) { err = errors.Join(err, e) })) // all is done in this goroutine
	exporter, err := newExporter(ctx, getenv)
	if err != nil {
		return err
	}
	// What is behind has the last word.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "holdfast")), resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return err
	}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(within{exporter, ctx}), sdk.WithResource(about), sdk.WithIDGenerator(a.Span))
	before := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": a.Span.Parent, "tracestate": a.Span.State}) //mutant:report-span-has-parent
	_, s := provider.Tracer("github.com/holdfast-go/holdfast/cmd/holdfast", trace.WithInstrumentationVersion(version())).
		Start(before, "holdfast run", trace.WithTimestamp(a.Began), trace.WithAttributes(a.attributes()...))
	if !a.Held.IsZero() {
		s.AddEvent("lock obtained", trace.WithTimestamp(a.Held))
	}
	switch a.Outcome {
	case outcomeSucceeded, outcomeSkipped, outcomeRefused, outcomeInterrupted:
	default:
		s.SetStatus(otelcodes.Error, a.Outcome)
	}
	s.End(trace.WithTimestamp(a.Ended))
	return errors.Join(err, provider.Shutdown(ctx))
}

func (a *account) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.StringSlice("holdfast.names", a.Names), attribute.String("holdfast.mode", a.Mode), attribute.Int64("holdfast.weight", a.Weight), attribute.Int64("holdfast.limit", a.Limit),
		attribute.String("holdfast.store", a.Store), attribute.String("holdfast.outcome", a.Outcome),
		attribute.String("process.executable.name", a.Program), attribute.Int("process.pid", a.PID), attribute.Int("process.exit.code", a.Code),
	}
	if len(a.Leases) > 0 {
		var ids []string
		var tokens []int64
		for _, l := range a.Leases {
			ids, tokens = append(ids, l.ID), append(tokens, l.Token)
		}
		all = append(all, attribute.StringSlice("holdfast.ids", ids), attribute.Int64Slice("holdfast.tokens", tokens))
	}
	return all
}

// newExporter is the exporter for the protocol. A collector that refuses gets no second try: jobs are not to wait for it.
func newExporter(ctx context.Context, getenv func(string) string) (sdk.SpanExporter, error) {
	switch protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	case "grpc":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: only http/protobuf and grpc are here", protocol)
	}
}

// within is an exporter whose calls end with a context.
type within struct {
	sdk.SpanExporter
	ctx context.Context
}

func (w within) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	return w.SpanExporter.ExportSpans(w.ctx, spans)
}

// NewIDs and NewSpanID make a span an sdk.IDGenerator of the numbers that the command was told.
func (s *span) NewIDs(context.Context) (of trace.TraceID, id trace.SpanID) {
	of, _ = trace.TraceIDFromHex(s.Trace)
	return of, s.NewSpanID(context.Background(), of)
}

func (s *span) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	id, _ := trace.SpanIDFromHex(s.ID)
	return id
}
