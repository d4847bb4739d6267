// Package holdfastotel reports locks to OpenTelemetry: spans of each wait and each hold, and
// metrics.
//
//	telemetry, err := holdfastotel.New(nil) // with the global providers
//	locks, err := holdfast.New(store, &holdfast.Options{Observer: telemetry.Observe})
//
// # Spans
//
//	holdfast wait    from the call to the grant, or to the end of a claim that got no hold
//	holdfast hold    from the grant to the release, or the loss
//
// The parent of both is the span in the context of the claim. The attributes are holdfast.name,
// holdfast.store, holdfast.id, holdfast.token and holdfast.outcome: granted, handed_over, refused,
// canceled or failed for a wait; released or lost for a hold. A refused claim has
// holdfast.blocked_by, which says who holds the name. A claim that fails, a loss, and a release
// with an unknown outcome have the status Error. A failed renewal and a request to give up are
// events of the hold.
//
// If the name is handed over inside the process, one call to the store serves several claims. The
// hold of each claim after the first is linked to the hold that the store granted.
//
// One call sends many renewals. It belongs to no single trace, so renewals have no span, and the
// spans of a driver for such a call have no parent.
//
// # Metrics
//
//	holdfast.holds                   what this process holds
//	holdfast.wait                    histogram, s: from the call to the grant, or the hand-over
//	holdfast.hold                    histogram, s: from the grant to the release, or the loss
//	holdfast.last_grant.timestamp    gauge, s: when a claim last got its hold, in Unix time
//	holdfast.handovers               claims that got their hold inside the process, without the store
//	holdfast.refusals                claims that ended without a hold as others were ahead
//	holdfast.losses                  holds that were lost
//	holdfast.failures                claims, renewals and releases that failed
//	holdfast.renewal.lateness        histogram, s: from when a renewal was due to its answer
//
// They are those of package holdfastprom. In Prometheus they have the same names, such as holdfast_wait_seconds
// and holdfast_losses_total. So the attributes have the names of its labels: store, operation and reason, and
// name if [Options.Label] is set. The alerts of docs/operate.md work for both.
//
// # Elections
//
// A standby candidate may wait for days. So waits, refusals and hold times of elections are not
// reported: they would hide those of locks. Their holds, losses and failures are reported.
//
// # Limits
//
// A span is exported when it ends. Holds of a process that is killed are never exported;
// the wait of the next holder is. A hold of days, and a term of an election, is a span of days.
package holdfastotel

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

const scope = "github.com/holdfast-go/holdfast/adapters/holdfastotel"

// Options configure a Telemetry; nil is the same as an empty one.
type Options struct {
	TracerProvider trace.TracerProvider // default: the global one
	MeterProvider  metric.MeterProvider // default: the global one
	// Label returns the value of the metrics' attribute "name" for the name of a lock: "invoice"
	// for invoice/42. It must return one of a few values, because each is a series. It must be
	// quick, always return the same value for a name, and be safe for concurrent use. Default:
	// metrics have no such attribute. Spans always have the whole name.
	Label func(name string) string
}

// A Telemetry turns events into spans and metrics. One Telemetry may serve several lockers at a
// time. Its methods are safe for concurrent use.
type Telemetry struct {
	tracer trace.Tracer
	label  func(string) string

	holds                                  metric.Int64UpDownCounter
	handovers, refusals, losses, failures  metric.Int64Counter
	waitSeconds, holdSeconds, renewalsLate metric.Float64Histogram

	mu     sync.Mutex
	series map[[2]string]attribute.Set // by store and label
	last   map[attribute.Set]time.Time // the newest grant of each series
	open   openHolds
}

// New returns a Telemetry. Its errors are those of the meter that creates the instruments. o may be
// nil.
func New(o *Options) (*Telemetry, error) {
	if o == nil {
		o = &Options{}
	}
	tracers, meters := o.TracerProvider, o.MeterProvider
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	t := &Telemetry{
		tracer: tracers.Tracer(scope), label: o.Label,
		series: map[[2]string]attribute.Set{}, last: map[attribute.Set]time.Time{}, open: newOpenHolds(),
	}
	return t, t.instruments(meters.Meter(scope))
}

func (t *Telemetry) instruments(m metric.Meter) error {
	var errs []error
	counter := func(name, unit, about string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, about string, buckets ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	var err error
	t.holds, err = m.Int64UpDownCounter("holdfast.holds", metric.WithUnit("{hold}"), metric.WithDescription("Holds that this process has."))
	errs = append(errs, err)
	t.handovers = counter("holdfast.handovers", "{claim}", "Claims that got their hold from another of this process.")
	t.refusals = counter("holdfast.refusals", "{claim}", "Claims that ended without a hold as others were ahead.")
	t.losses = counter("holdfast.losses", "{hold}", "Holds that were lost.")
	t.failures = counter("holdfast.failures", "{failure}", "Claims, attempts to renew and releases that failed; indeterminate: the outcome is not known.")
	long := []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	t.waitSeconds = seconds("holdfast.wait", "How long claims took from the call to the grant.", long...)
	t.holdSeconds = seconds("holdfast.hold", "How long holds lasted from the grant to the release or the loss.", long...)
	t.renewalsLate = seconds("holdfast.renewal.lateness", "How long after they were due renewals were answered.",
		0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
	_, err = m.Float64ObservableGauge("holdfast.last_grant.timestamp", metric.WithUnit("s"), metric.WithDescription("When a claim last got its hold, in Unix time."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			for set, at := range t.last {
				o.Observe(float64(at.UnixNano())/1e9, metric.WithAttributeSet(set))
			}
			return nil
		}))
	return errors.Join(append(errs, err)...)
}

// Observe is for [holdfast.Options].Observer. It does no I/O, unless the tracer provider
// exports each span at once, and does not block.
func (t *Telemetry) Observe(e holdfast.Event) {
	if e.Context == nil {
		e.Context = context.Background()
	}
	t.measure(e)
	switch e.Kind {
	case holdfast.EventGranted, holdfast.EventHandedOver:
		if !e.Candidate {
			t.waited(e)
		}
		t.begin(e)
	case holdfast.EventRefused, holdfast.EventFailed:
		if !e.Candidate {
			t.waited(e)
		}
	case holdfast.EventRenewalFailed:
		t.happened(e, "renewal failed", attribute.String("error", text(e.Err)))
	case holdfast.EventAskedToGiveUp:
		t.happened(e, "asked to give up", attribute.String("reason", e.Reason))
	case holdfast.EventReleased, holdfast.EventLost:
		t.end(e)
	}
}

// measure updates the metrics.
func (t *Telemetry) measure(e holdfast.Event) {
	set := t.of(e)
	with := metric.WithAttributeSet(set)
	ctx, after := e.Context, e.After.Seconds()
	fail := func(operation string) {
		t.failures.Add(ctx, 1, with, metric.WithAttributes(attribute.String("operation", operation), attribute.String("reason", reason(e.Err))))
	}
	switch e.Kind {
	case holdfast.EventGranted, holdfast.EventHandedOver:
		t.holds.Add(ctx, 1, with)
		t.mu.Lock()
		t.last[set] = time.Now() //mutant:otel-last
		t.mu.Unlock()
		if e.Kind == holdfast.EventHandedOver {
			t.handovers.Add(ctx, 1, with)
		}
		if !e.Candidate {
			t.waitSeconds.Record(ctx, after, with)
		}
	case holdfast.EventRefused:
		if !e.Candidate {
			t.refusals.Add(ctx, 1, with)
		}
	case holdfast.EventFailed:
		if !errors.Is(e.Err, context.Canceled) {
			fail("claim")
		}
	case holdfast.EventRenewed:
		t.renewalsLate.Record(ctx, after, with)
	case holdfast.EventRenewalFailed:
		fail("renewal")
	case holdfast.EventReleased, holdfast.EventLost:
		t.holds.Add(ctx, -1, with)
		if !e.Candidate {
			t.holdSeconds.Record(ctx, after, with)
		}
		if e.Kind == holdfast.EventLost {
			t.losses.Add(ctx, 1, with) //mutant:otel-loss
		} else if e.Err != nil {
			fail("release")
		}
	}
}

const indeterminate = "indeterminate"

// reason returns one of a few values. A claim whose context ended before the store had answered is
// indeterminate too. holdfastprom has the same function, and must return the same: they share no
// internal package, since the root module in use may be newer than this module.
func reason(err error) string {
	for _, r := range []struct {
		err  error
		text string
	}{
		{holdfast.ErrDenied, "denied"}, {holdfast.ErrCorrupt, "corrupt"}, {holdfast.ErrMismatch, "mismatch"},
		{holdfast.ErrUnavailable, indeterminate}, {context.DeadlineExceeded, indeterminate},
	} {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return "other"
}

// of returns the attributes of an event's metrics. The counters that alerts use begin at 0
// together, so that an increase is seen from the first loss on.
func (t *Telemetry) of(e holdfast.Event) attribute.Set {
	key := [2]string{strings.ToValidUTF8(e.Store, "\uFFFD")}
	if t.label != nil {
		key[1] = strings.ToValidUTF8(t.label(e.Name), "\uFFFD")
	}
	t.mu.Lock()
	set, ok := t.series[key]
	if !ok {
		all := []attribute.KeyValue{attribute.String("store", key[0])}
		if t.label != nil {
			all = append(all, attribute.String("name", key[1]))
		}
		set = attribute.NewSet(all...)
		t.series[key] = set
	}
	t.mu.Unlock()
	if !ok {
		ctx, with := context.Background(), metric.WithAttributeSet(set)
		for _, c := range []metric.Int64Counter{t.handovers, t.refusals, t.losses} {
			c.Add(ctx, 0, with)
		}
		for _, operation := range []string{"claim", "renewal", "release"} {
			t.failures.Add(ctx, 0, with, metric.WithAttributes(attribute.String("operation", operation), attribute.String("reason", indeterminate)))
		}
	}
	return set
}

// about returns the attributes of a span for the event.
func about(e holdfast.Event) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("holdfast.name", strings.ToValidUTF8(e.Name, "\uFFFD")),
		attribute.String("holdfast.store", strings.ToValidUTF8(e.Store, "\uFFFD")),
	}
	if id := e.ID.String(); strings.Trim(id, "0") != "" {
		all = append(all, attribute.String("holdfast.id", id))
	}
	if e.Token != 0 {
		all = append(all, attribute.Int64("holdfast.token", e.Token))
	}
	return all
}

func outcome(of string) attribute.KeyValue { return attribute.String("holdfast.outcome", of) }

// waited creates the span of a wait that has ended.
func (t *Telemetry) waited(e holdfast.Event) {
	now := time.Now()
	_, span := t.tracer.Start(e.Context, "holdfast wait", trace.WithTimestamp(now.Add(-e.After)), trace.WithAttributes(about(e)...))
	switch held := (*holdfast.HeldError)(nil); {
	case e.Kind == holdfast.EventGranted:
		span.SetAttributes(outcome("granted"))
	case e.Kind == holdfast.EventHandedOver:
		span.SetAttributes(outcome("handed_over"))
	case errors.As(e.Err, &held):
		span.SetAttributes(outcome("refused"), attribute.String("holdfast.blocked_by", strings.ToValidUTF8(held.Who(), "\uFFFD")))
	case e.Kind == holdfast.EventRefused:
		span.SetAttributes(outcome("refused"))
	case errors.Is(e.Err, context.Canceled):
		span.SetAttributes(outcome("canceled"))
	default:
		span.SetAttributes(outcome("failed"))
		span.SetStatus(codes.Error, text(e.Err))
	}
	span.End(trace.WithTimestamp(now))
}

// begin starts the span of a hold.
func (t *Telemetry) begin(e holdfast.Event) {
	now := time.Now()
	start := []trace.SpanStartOption{trace.WithTimestamp(now), trace.WithAttributes(about(e)...)}
	t.mu.Lock()
	grant, early := t.open.before(e)
	t.mu.Unlock()
	if e.Kind == holdfast.EventHandedOver && grant.IsValid() {
		start = append(start, trace.WithLinks(trace.Link{SpanContext: grant}))
	}
	_, span := t.tracer.Start(e.Context, "holdfast hold", start...) //mutant:otel-parent
	if early != nil {                                               // its end was reported first
		finish(span, *early)
		return
	}
	if e.Kind == holdfast.EventGranted {
		grant = span.SpanContext()
	}
	t.mu.Lock()
	early = t.open.add(e, openHold{e.Token, span, grant})
	t.mu.Unlock()
	if early != nil {
		finish(span, *early)
	}
}

// happened adds an event to the span of a hold.
func (t *Telemetry) happened(e holdfast.Event, what string, attributes ...attribute.KeyValue) {
	t.mu.Lock()
	h, ok := t.open.find(e)
	t.mu.Unlock()
	if ok {
		h.span.AddEvent(what, trace.WithAttributes(attributes...))
	}
}

// end ends the span of a hold.
func (t *Telemetry) end(e holdfast.Event) {
	t.mu.Lock()
	h, ok := t.open.remove(e)
	t.mu.Unlock()
	if ok {
		finish(h.span, e)
	}
}

func finish(span trace.Span, e holdfast.Event) {
	span.SetAttributes(outcome(map[bool]string{true: "lost", false: "released"}[e.Kind == holdfast.EventLost]))
	if e.Err != nil {
		span.SetStatus(codes.Error, text(e.Err))
	}
	span.End()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.ToValidUTF8(cmp.Or(err.Error(), "unknown"), "\uFFFD")
}
