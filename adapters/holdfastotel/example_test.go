package holdfastotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastotel"
	"github.com/holdfast-go/holdfast/memstore"
)

func Example() {
	exported := tracetest.NewInMemoryExporter() // in a program: an exporter for OTLP
	provider := trace.NewTracerProvider(trace.WithSyncer(exported))
	telemetry, err := holdfastotel.New(&holdfastotel.Options{TracerProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(memstore.New(), &holdfast.Options{Observer: telemetry.Observe})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	ctx, span := provider.Tracer("example").Start(context.Background(), "request")
	err = locks.Mutex("invoice/42").Do(ctx, func(context.Context) error { return nil })
	span.End()
	for _, s := range exported.GetSpans() {
		fmt.Println(s.Name, "in the trace:", s.SpanContext.TraceID() == span.SpanContext().TraceID())
	}
	fmt.Println(err)
	// Output:
	// holdfast wait in the trace: true
	// holdfast hold in the trace: true
	// request in the trace: true
	// <nil>
}
