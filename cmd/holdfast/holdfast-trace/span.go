package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

// send sends the span of the run as the OTEL_ variables say. The SDK and its exporters read most
// of them.
func send(ctx context.Context, a *report.Account, getenv func(string) string) (err error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") { //mutant:trace-off
		return nil
	}
	switch kind := cmp.Or(getenv("OTEL_TRACES_EXPORTER"), "otlp"); kind {
	case "otlp":
	case "none":
		return nil
	default:
		return fmt.Errorf("OTEL_TRACES_EXPORTER=%s: only otlp and none are here", kind)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(e error) { err = errors.Join(err, e) })) // called in this goroutine only
	exporter, err := newExporter(ctx, getenv)
	if err != nil {
		return err
	}
	// Later options override earlier ones.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "holdfast")), resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return err
	}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(within{exporter, ctx}), sdk.WithResource(about), sdk.WithIDGenerator((*numbers)(a.Span)))
	before := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": a.Span.Parent, "tracestate": a.Span.State}) //mutant:trace-has-parent
	_, s := provider.Tracer("github.com/holdfast-go/holdfast/cmd/holdfast", trace.WithInstrumentationVersion(a.Version)).
		Start(before, "holdfast run", trace.WithTimestamp(a.Began), trace.WithAttributes(attributes(a)...))
	if !a.Held.IsZero() {
		s.AddEvent("lock obtained", trace.WithTimestamp(a.Held))
	}
	switch a.Outcome {
	case report.Succeeded, report.Skipped, report.Refused, report.Interrupted:
	default:
		s.SetStatus(codes.Error, a.Outcome)
	}
	s.End(trace.WithTimestamp(a.Ended))
	return errors.Join(err, provider.Shutdown(ctx))
}

func attributes(a *report.Account) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.StringSlice("holdfast.names", a.Names), attribute.String("holdfast.mode", a.Mode), attribute.Int64("holdfast.weight", a.Weight), attribute.Int64("holdfast.limit", a.Limit),
		attribute.String("holdfast.store", a.Store), attribute.String("holdfast.outcome", a.Outcome),
		attribute.String("process.executable.name", a.Program), attribute.Int("process.pid", a.PID), attribute.Int("process.exit.code", a.Code),
	}
	if len(a.IDs) > 0 {
		all = append(all, attribute.StringSlice("holdfast.ids", a.IDs), attribute.Int64Slice("holdfast.tokens", a.Tokens))
	}
	return all
}

// newExporter returns the exporter for the protocol. It does not retry if the collector refuses:
// jobs must not wait for it.
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

// within is an exporter whose exports are bounded by ctx.
type within struct {
	sdk.SpanExporter
	ctx context.Context
}

func (w within) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	return w.SpanExporter.ExportSpans(w.ctx, spans) //mutant:trace-bounded
}

// numbers is an sdk.IDGenerator that returns the ids that the command got.
type numbers report.Span

func (n *numbers) NewIDs(ctx context.Context) (of trace.TraceID, id trace.SpanID) {
	of, _ = trace.TraceIDFromHex(n.Trace)
	return of, n.NewSpanID(ctx, of)
}

func (n *numbers) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	id, _ := trace.SpanIDFromHex(n.ID)
	return id
}
