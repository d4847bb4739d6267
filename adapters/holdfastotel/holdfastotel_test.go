package holdfastotel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastotel"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		holds(dir)
	}
	goleak.VerifyTestMain(m)
}

// A collected is a Telemetry with what it has reported.
type collected struct {
	*holdfastotel.Telemetry
	spans    *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	reader   *sdkmetric.ManualReader
}

func newCollected(t testing.TB, label func(string) string) *collected {
	t.Helper()
	c := &collected{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	c.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans))
	var err error
	c.Telemetry, err = holdfastotel.New(&holdfastotel.Options{
		TracerProvider: c.provider,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.reader)),
		Label:          label,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// value is the sum of all series of a metric that have the attributes; for a histogram it is the count. -1: there is
// none.
func (c *collected) value(t testing.TB, name string, with ...attribute.KeyValue) (v float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	v = -1
	add := func(set attribute.Set, n float64) {
		for _, want := range with {
			if have, ok := set.Value(want.Key); !ok || have != want.Value {
				return
			}
		}
		v = max(v, 0) + n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return v
}

// named are the exported spans with a name.
func (c *collected) named(name string) (these tracetest.SpanStubs) {
	for _, s := range c.spans.GetSpans() {
		if s.Name == name {
			these = append(these, s)
		}
	}
	return these
}

// only is the one exported span with a name.
func (c *collected) only(t testing.TB, name string) tracetest.SpanStub {
	t.Helper()
	these := c.named(name)
	if len(these) != 1 {
		t.Fatalf("got %d spans %q, want one", len(these), name)
	}
	return these[0]
}

func attr(s tracetest.SpanStub, key attribute.Key) string {
	set := attribute.NewSet(s.Attributes...)
	v, _ := set.Value(key)
	return fmt.Sprint(v.AsInterface())
}

func (c *collected) locker(t testing.TB, s store.Store, o holdfast.Options) *holdfast.Locker {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Observer == nil {
		o.Observer = c.Observe
	}
	l, err := holdfast.New(s, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func lock(t testing.TB, l *holdfast.Locker, ctx context.Context, name string) *holdfast.Lease {
	t.Helper()
	lease, err := l.Mutex(name).TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// The same story as in the test of holdfastprom.
func TestMetricsCountWhatALockerDoes(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		locks := c.locker(t, mem, holdfast.Options{})
		count := func(name string, want float64, with ...attribute.KeyValue) {
			t.Helper()
			synctest.Wait()
			if v := c.value(t, name, with...); v != want {
				t.Errorf("%s %v is %v, want %v", name, with, v, want)
			}
		}
		failure := func(operation string) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("operation", operation), attribute.String("reason", "indeterminate")}
		}

		one, two := lock(t, locks, t.Context(), "one"), lock(t, locks, t.Context(), "two")
		count("holdfast.holds", 2)
		count("holdfast.losses", 0)
		count("holdfast.failures", 0, failure("renewal")...)
		if _, err := locks.Mutex("one").TryLock(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		count("holdfast.refusals", 1)
		if err := one.Release(); err != nil {
			t.Fatal(err)
		}
		count("holdfast.holds", 1)
		count("holdfast.hold", 1)
		time.Sleep(11 * time.Second)
		count("holdfast.renewal.lateness", 1)

		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		if _, err := locks.Mutex("three").TryLock(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		count("holdfast.failures", 1, failure("claim")...)
		<-two.Lost()
		count("holdfast.losses", 1)
		count("holdfast.holds", 0)
		if v := c.value(t, "holdfast.failures", failure("renewal")...); v < 10 {
			t.Errorf("%v renewals failed in 20 s, want at least one each second", v)
		}
		mem.Fail(nil)
		three := lock(t, locks, t.Context(), "three")
		count("holdfast.last_grant.timestamp", float64(time.Now().UnixNano())/1e9)
		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		if err := three.Release(); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		mem.Fail(nil)
		count("holdfast.failures", 1, failure("release")...)
		count("holdfast.wait", 3)
		count("holdfast.hold", 3)
	})
}

func TestSpansHaveTheClaimsSpanAsParent(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		locks := c.locker(t, mem, holdfast.Options{HandOver: &holdfast.HandOver{}})
		first := lock(t, locks, t.Context(), "a")
		ctx, request := c.provider.Tracer("test").Start(t.Context(), "request")
		go func() {
			time.Sleep(3 * time.Second)
			first.Release()
		}()
		lease, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		lease.Release()
		request.End()
		synctest.Wait()
		for name, want := range map[string]time.Duration{"holdfast wait": 3 * time.Second, "holdfast hold": 5 * time.Second} {
			s := c.named(name)[1]
			if s.Parent.SpanID() != request.SpanContext().SpanID() || s.SpanContext.TraceID() != request.SpanContext().TraceID() {
				t.Errorf("%s: got parent %v, want the span of the request", name, s.Parent)
			}
			if d := s.EndTime.Sub(s.StartTime); d < want || d > want+time.Second {
				t.Errorf("%s: lasted %v, want %v", name, d, want)
			}
			if attr(s, "holdfast.id") != lease.ID() || attr(s, "holdfast.token") != fmt.Sprint(lease.Token()) || attr(s, "holdfast.name") != "a" {
				t.Errorf("%s: got attributes %v", name, s.Attributes)
			}
		}
		if o := attr(c.named("holdfast wait")[1], "holdfast.outcome"); o != "granted" {
			t.Errorf("got outcome %q of the wait, want granted", o)
		}
		if o := attr(c.named("holdfast hold")[1], "holdfast.outcome"); o != "released" {
			t.Errorf("got outcome %q of the hold, want released", o)
		}
	})
}

// The store granted once, and three claims had the hold.
func TestHandOversAreLinkedToTheHoldThatWasGranted(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		locks := c.locker(t, mem, holdfast.Options{HandOver: &holdfast.HandOver{Times: 64, For: time.Hour}})
		first := lock(t, locks, t.Context(), "a")
		var waiters sync.WaitGroup
		for range 2 {
			waiters.Go(func() {
				l, err := locks.Mutex("a").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				l.Release()
			})
		}
		synctest.Wait()
		first.Release()
		waiters.Wait()
		synctest.Wait()
		var granted tracetest.SpanStub
		linked := 0
		for _, s := range c.named("holdfast hold") {
			if len(s.Links) == 0 {
				granted = s
			}
		}
		for _, s := range c.named("holdfast hold") {
			if len(s.Links) == 1 && s.Links[0].SpanContext.SpanID() == granted.SpanContext.SpanID() {
				linked++
			}
		}
		if n := len(c.named("holdfast hold")); n != 3 || linked != 2 {
			t.Errorf("got %d holds and %d linked, want 3 and 2", n, linked)
		}
		if v := c.value(t, "holdfast.handovers"); v != 2 {
			t.Errorf("got %v hand-overs, want 2", v)
		}
	})
}

// The events of a hold come from several goroutines.
func TestEventsOutOfOrderLeaveNoSpanOpen(t *testing.T) {
	c := newCollected(t, nil)
	ctx := [3]context.Context{}
	for i := range ctx {
		ctx[i] = context.WithValue(t.Context(), &ctx[i], i)
	}
	id := store.ID{1}
	lost := fmt.Errorf("%w: gone", holdfast.ErrLost)
	for _, e := range []holdfast.Event{
		{Kind: holdfast.EventGranted, Token: 1, Context: ctx[0]},
		{Kind: holdfast.EventLost, Token: 3, Context: ctx[2], Err: lost}, // before the grant of the hold that it ends
		{Kind: holdfast.EventHandedOver, Token: 2, Context: ctx[1]},      // before the release
		{Kind: holdfast.EventReleased, Token: 1, Context: ctx[0]},
		{Kind: holdfast.EventReleased, Token: 2, Context: ctx[1]},
	} {
		e.ID, e.Name, e.Store = id, "a", "s"
		c.Observe(e)
	}
	// The early end is forgotten when the id gets a later event: only the newest is kept.
	c.Observe(holdfast.Event{Kind: holdfast.EventLost, ID: id, Token: 4, Context: ctx[2], Err: lost})
	c.Observe(holdfast.Event{Kind: holdfast.EventHandedOver, ID: id, Token: 4, Context: ctx[2]})
	var ends []string
	for _, s := range c.named("holdfast hold") {
		ends = append(ends, attr(s, "holdfast.token")+" "+attr(s, "holdfast.outcome"))
	}
	if got := strings.Join(ends, ", "); got != "1 released, 2 released, 4 lost" {
		t.Errorf("%s", got)
	}
}

func TestAnUpgradedHoldIsOneSpan(t *testing.T) {
	c := newCollected(t, nil)
	locks := c.locker(t, memstore.New(), holdfast.Options{})
	lease, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
	if err == nil {
		err = lease.Upgrade(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	if s := c.only(t, "holdfast hold"); attr(s, "holdfast.outcome") != "released" {
		t.Errorf("%v", s.Attributes)
	}
}

func TestASpanSaysWhyAClaimGotNoHold(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		locks := c.locker(t, mem, holdfast.Options{})
		defer lock(t, locks, t.Context(), "a").Release()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		locks.Mutex("a").Lock(ctx)
		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		locks.Mutex("b").TryLock(t.Context())
		mem.Fail(nil)
		synctest.Wait()
		waits := c.named("holdfast wait")
		if len(waits) != 3 {
			t.Fatalf("got %d waits, want 3", len(waits))
		}
		refused, failed := waits[1], waits[2]
		if attr(refused, "holdfast.outcome") != "refused" || !strings.Contains(attr(refused, "holdfast.blocked_by"), "held by") || refused.Status.Code == codes.Error {
			t.Errorf("refused claim: got %v %v", refused.Attributes, refused.Status)
		}
		if attr(failed, "holdfast.outcome") != "failed" || failed.Status.Code != codes.Error {
			t.Errorf("failed claim: got %v %v", failed.Attributes, failed.Status)
		}
		c.Observe(holdfast.Event{Kind: holdfast.EventFailed, Name: "c", Err: context.Canceled})
		if last := c.named("holdfast wait")[3]; attr(last, "holdfast.outcome") != "canceled" || last.Status.Code == codes.Error {
			t.Errorf("canceled claim: got %v %v", last.Attributes, last.Status)
		}
	})
}

func TestALossIsAnErrorOfTheHoldsSpan(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		locks := c.locker(t, mem, holdfast.Options{})
		lease := lock(t, locks, t.Context(), "a")
		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		<-lease.Lost()
		mem.Fail(nil)
		synctest.Wait()
		s := c.only(t, "holdfast hold")
		if attr(s, "holdfast.outcome") != "lost" || s.Status.Code != codes.Error {
			t.Errorf("got %v %v, want the outcome lost and an error", s.Attributes, s.Status)
		}
		if len(s.Events) == 0 || s.Events[0].Name != "renewal failed" {
			t.Errorf("got events %v, want failed renewals", s.Events)
		}
	})
}

func TestAStandbyCandidateIsNotCountedAsAWait(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := newCollected(t, nil)
		candidate := func() *holdfast.Election {
			return c.locker(t, mem, holdfast.Options{}).Election("scheduler")
		}
		leader, err := candidate().Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := candidate().Campaign(ctx); !errors.Is(err, holdfast.ErrHeld) { // it was stopped
			t.Fatal(err)
		}
		go func() {
			time.Sleep(24 * time.Hour)
			leader.Release()
		}()
		next, err := candidate().Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := c.value(t, "holdfast.holds"); v != 1 {
			t.Errorf("got %v holds, want 1", v)
		}
		next.Release()
		synctest.Wait()
		for _, name := range []string{"holdfast.wait", "holdfast.hold", "holdfast.refusals"} {
			if v := c.value(t, name); v > 0 {
				t.Errorf("%s is %v, want nothing", name, v)
			}
		}
		if w, h := len(c.named("holdfast wait")), len(c.named("holdfast hold")); w != 0 || h != 2 {
			t.Errorf("got %d spans of waits and %d of holds, want 0 and 2", w, h)
		}
	})
}

func TestNamesAreNoAttributeUnlessAskedFor(t *testing.T) {
	family := func(name string) string { first, _, _ := strings.Cut(name, "/"); return first }
	none, some := newCollected(t, nil), newCollected(t, family)
	for i := range 1000 {
		for _, family := range []string{"invoice", "order"} {
			e := holdfast.Event{Kind: holdfast.EventRenewed, Name: fmt.Sprintf("%s/%d", family, i), Store: "s\xff"}
			none.Observe(e)
			some.Observe(e)
		}
	}
	const renewals = "holdfast.renewal.lateness"
	if v := none.value(t, renewals, attribute.String("store", "s\uFFFD")); v != 2000 {
		t.Errorf("got %v renewals in all, want 2000", v)
	}
	if v := none.value(t, renewals, attribute.String("name", "order")); v != -1 {
		t.Errorf("got %v renewals with a name, want none", v)
	}
	if v := some.value(t, renewals, attribute.String("name", "order")); v != 1000 {
		t.Errorf("got %v renewals of one family, want 1000", v)
	}
}

func TestATelemetryIsUsedByManyAtATime(t *testing.T) {
	c := newCollected(t, nil)
	locks := c.locker(t, memstore.New(), holdfast.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := locks.Mutex("a").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if w, h := len(c.named("holdfast wait")), len(c.named("holdfast hold")); w != 400 || h != 400 {
		t.Errorf("got %d waits and %d holds, want 400 of each", w, h)
	}
	if v := c.value(t, "holdfast.holds"); v != 0 {
		t.Errorf("got %v holds, want none", v)
	}
}

// holds is the other process: it takes the lock, says so, and keeps it until it is killed.
func holds(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	if err == nil {
		_, err = locks.Mutex("a").TryLock(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.WriteString("holds\n")
	select {}
}

func TestTheWaitForAKilledProcessIsReported(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("holds")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCollected(t, nil)
	waits := make(chan struct{}, 1)
	locks := c.locker(t, s, holdfast.Options{Observer: func(e holdfast.Event) {
		if c.Observe(e); e.Kind == holdfast.EventWaiting {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	}})
	go func() {
		<-waits
		other.Kill()
	}()
	lease, err := locks.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
	if w := c.only(t, "holdfast wait"); attr(w, "holdfast.outcome") != "granted" {
		t.Errorf("%v", w.Attributes)
	}
	if v := c.value(t, "holdfast.wait"); v != 1 {
		t.Errorf("got %v waits, want 1", v)
	}
}
