package holdfastprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/memstore"
)

// is compares the gathered values of these metrics with the text.
func is(t *testing.T, c prometheus.Collector, text string, metrics ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(text), metrics...); err != nil {
		t.Error(err)
	}
}

// value is the value of one series; for a histogram it is the count.
func value(t *testing.T, c prometheus.Collector, metric string, labels map[string]string) (v float64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			match := f.GetName() == metric
			for _, l := range m.GetLabel() {
				match = match && (labels[l.GetName()] == "" || labels[l.GetName()] == l.GetValue())
			}
			if match {
				found++
				v = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	if found != 1 {
		t.Fatalf("got %d series of %s %v, want one", found, metric, labels)
	}
	return v
}

// A whole story of events, as the engine reports them.
func TestCollector_CountsWhatALockerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := holdfastprom.New(nil)
		mem := memstore.New()
		locks, err := holdfast.New(mem, &holdfast.Options{
			Observer: metrics.Observe, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		count := func(metric string, labels map[string]string, want float64) {
			t.Helper()
			synctest.Wait()
			if v := value(t, metrics, metric, labels); v != want {
				t.Errorf("%s %v is %v, want %v", metric, labels, v, want)
			}
		}
		lock := func(name string) *holdfast.Lease {
			t.Helper()
			l, err := locks.Mutex(name).TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return l
		}

		one, two := lock("one"), lock("two")
		count("holdfast_holds", nil, 2)
		if _, err := locks.Mutex("one").TryLock(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		count("holdfast_refusals_total", nil, 1)
		if err := one.Release(); err != nil {
			t.Fatal(err)
		}
		count("holdfast_holds", nil, 1)
		time.Sleep(11 * time.Second)
		count("holdfast_renewal_lateness_seconds", nil, 1)

		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		if _, err := locks.Mutex("three").TryLock(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		count("holdfast_failures_total", map[string]string{"operation": "claim", "reason": "indeterminate"}, 1)
		<-two.Lost()
		count("holdfast_losses_total", nil, 1)
		count("holdfast_holds", nil, 0)
		if v := value(t, metrics, "holdfast_failures_total", map[string]string{"operation": "renewal", "reason": "indeterminate"}); v < 10 {
			t.Errorf("%v renewals failed in 20 s, want at least one each second", v)
		}
		mem.Fail(nil)
		three := lock("three")
		count("holdfast_last_grant_timestamp_seconds", nil, float64(time.Now().UnixNano())/1e9)
		mem.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		if err := three.Release(); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		mem.Fail(nil)
		count("holdfast_failures_total", map[string]string{"operation": "release", "reason": "indeterminate"}, 1)
		count("holdfast_holds", nil, 0)
		count("holdfast_wait_seconds", nil, 3)
		count("holdfast_hold_seconds", nil, 3)
	})
}

func TestCollector_SaysHowLongAndWhy(t *testing.T) {
	metrics := holdfastprom.New(nil)
	lost := fmt.Errorf("%w: gone", holdfast.ErrLost)
	for _, e := range []holdfast.Event{
		{Kind: holdfast.EventGranted, After: 300 * time.Millisecond},
		{Kind: holdfast.EventHandedOver, After: 20 * time.Second},
		{Kind: holdfast.EventRenewed, After: 30 * time.Millisecond},
		{Kind: holdfast.EventRenewed, After: time.Hour},
		{Kind: holdfast.EventLost, After: time.Hour, Err: lost},
		{Kind: holdfast.EventLost, After: time.Hour, Err: lost, Candidate: true}, // a term, so no hold time
		{Kind: holdfast.EventFailed, Err: holdfast.ErrDenied},
		{Kind: holdfast.EventFailed, Err: holdfast.ErrMismatch},
		{Kind: holdfast.EventFailed, Err: context.DeadlineExceeded},
		{Kind: holdfast.EventFailed, Err: context.Canceled}, // canceled by the caller: no failure
		{Kind: holdfast.EventRenewalFailed, Err: holdfast.ErrCorrupt},
		{Kind: holdfast.EventReleased, After: 2 * time.Second, Err: errors.New("what?")},
		{Kind: holdfast.EventKind(99)}, // from a later version
	} {
		e.Store = "a store"
		metrics.Observe(e)
	}
	is(t, metrics, `
# HELP holdfast_failures_total Claims, attempts to renew and releases that failed; indeterminate: the outcome is not known.
# TYPE holdfast_failures_total counter
holdfast_failures_total{operation="claim",reason="denied",store="a store"} 1
holdfast_failures_total{operation="claim",reason="mismatch",store="a store"} 1
holdfast_failures_total{operation="claim",reason="indeterminate",store="a store"} 1
holdfast_failures_total{operation="release",reason="other",store="a store"} 1
holdfast_failures_total{operation="release",reason="indeterminate",store="a store"} 0
holdfast_failures_total{operation="renewal",reason="corrupt",store="a store"} 1
holdfast_failures_total{operation="renewal",reason="indeterminate",store="a store"} 0
# HELP holdfast_handovers_total Claims that got their hold from another of this process.
# TYPE holdfast_handovers_total counter
holdfast_handovers_total{store="a store"} 1
# HELP holdfast_hold_seconds How long holds lasted from the grant to the release or the loss.
# TYPE holdfast_hold_seconds histogram
holdfast_hold_seconds_bucket{store="a store",le="0.001"} 0
holdfast_hold_seconds_bucket{store="a store",le="0.005"} 0
holdfast_hold_seconds_bucket{store="a store",le="0.025"} 0
holdfast_hold_seconds_bucket{store="a store",le="0.1"} 0
holdfast_hold_seconds_bucket{store="a store",le="0.5"} 0
holdfast_hold_seconds_bucket{store="a store",le="1"} 0
holdfast_hold_seconds_bucket{store="a store",le="2.5"} 1
holdfast_hold_seconds_bucket{store="a store",le="5"} 1
holdfast_hold_seconds_bucket{store="a store",le="10"} 1
holdfast_hold_seconds_bucket{store="a store",le="30"} 1
holdfast_hold_seconds_bucket{store="a store",le="60"} 1
holdfast_hold_seconds_bucket{store="a store",le="300"} 1
holdfast_hold_seconds_bucket{store="a store",le="1800"} 1
holdfast_hold_seconds_bucket{store="a store",le="+Inf"} 2
holdfast_hold_seconds_sum{store="a store"} 3602
holdfast_hold_seconds_count{store="a store"} 2
# HELP holdfast_holds Holds that this process has.
# TYPE holdfast_holds gauge
holdfast_holds{store="a store"} -1
# HELP holdfast_losses_total Holds that were lost.
# TYPE holdfast_losses_total counter
holdfast_losses_total{store="a store"} 2
# HELP holdfast_refusals_total Claims that ended without a hold as others were ahead.
# TYPE holdfast_refusals_total counter
holdfast_refusals_total{store="a store"} 0
# HELP holdfast_renewal_lateness_seconds How long after they were due renewals were answered.
# TYPE holdfast_renewal_lateness_seconds histogram
holdfast_renewal_lateness_seconds_bucket{store="a store",le="0.005"} 0
holdfast_renewal_lateness_seconds_bucket{store="a store",le="0.025"} 0
holdfast_renewal_lateness_seconds_bucket{store="a store",le="0.1"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="0.25"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="0.5"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="1"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="2.5"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="5"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="10"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="20"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="40"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="80"} 1
holdfast_renewal_lateness_seconds_bucket{store="a store",le="+Inf"} 2
holdfast_renewal_lateness_seconds_sum{store="a store"} 3600.03
holdfast_renewal_lateness_seconds_count{store="a store"} 2
# HELP holdfast_wait_seconds How long claims took from the call to the grant.
# TYPE holdfast_wait_seconds histogram
holdfast_wait_seconds_bucket{store="a store",le="0.001"} 0
holdfast_wait_seconds_bucket{store="a store",le="0.005"} 0
holdfast_wait_seconds_bucket{store="a store",le="0.025"} 0
holdfast_wait_seconds_bucket{store="a store",le="0.1"} 0
holdfast_wait_seconds_bucket{store="a store",le="0.5"} 1
holdfast_wait_seconds_bucket{store="a store",le="1"} 1
holdfast_wait_seconds_bucket{store="a store",le="2.5"} 1
holdfast_wait_seconds_bucket{store="a store",le="5"} 1
holdfast_wait_seconds_bucket{store="a store",le="10"} 1
holdfast_wait_seconds_bucket{store="a store",le="30"} 2
holdfast_wait_seconds_bucket{store="a store",le="60"} 2
holdfast_wait_seconds_bucket{store="a store",le="300"} 2
holdfast_wait_seconds_bucket{store="a store",le="1800"} 2
holdfast_wait_seconds_bucket{store="a store",le="+Inf"} 2
holdfast_wait_seconds_sum{store="a store"} 20.3
holdfast_wait_seconds_count{store="a store"} 2
`, "holdfast_failures_total", "holdfast_handovers_total", "holdfast_hold_seconds", "holdfast_holds", "holdfast_losses_total", "holdfast_refusals_total", "holdfast_renewal_lateness_seconds", "holdfast_wait_seconds")
}

// A thousand names are one series, unless the user sets which to distinguish.
func TestCollector_NamesAreNoLabelUnlessAskedFor(t *testing.T) {
	family := func(name string) string { first, _, _ := strings.Cut(name, "/"); return first }
	none, some := holdfastprom.New(nil), holdfastprom.New(&holdfastprom.Options{Label: family})
	for i := range 1000 {
		for _, family := range []string{"invoice", "order"} {
			e := holdfast.Event{Kind: holdfast.EventGranted, Name: fmt.Sprintf("%s/%d", family, i), Store: "s"}
			none.Observe(e)
			some.Observe(e)
		}
	}
	const head = "# HELP holdfast_holds Holds that this process has.\n# TYPE holdfast_holds gauge\n"
	is(t, none, head+`holdfast_holds{store="s"} 2000`+"\n", "holdfast_holds")
	is(t, some, head+`holdfast_holds{name="invoice",store="s"} 1000
holdfast_holds{name="order",store="s"} 1000
`, "holdfast_holds")
	for _, c := range []struct {
		of   *holdfastprom.Collector
		want int
	}{{none, 11}, {some, 22}} { // holds, waits, hold times, last grant, handovers, refusals, losses, lateness, three failures
		if n := testutil.CollectAndCount(c.of); n != c.want {
			t.Errorf("got %d series, want %d", n, c.want)
		}
	}
}

// A store's description may contain the bytes of a directory's name.
func TestCollector_ALabelIsAlwaysText(t *testing.T) {
	metrics := holdfastprom.New(&holdfastprom.Options{Label: func(string) string { return "\xff" }})
	metrics.Observe(holdfast.Event{Kind: holdfast.EventGranted, Store: "file:/\xfe"})
	if v := value(t, metrics, "holdfast_holds", map[string]string{"store": "file:/\uFFFD", "name": "\uFFFD"}); v != 1 {
		t.Errorf("got %v holds, want 1", v)
	}
}

func TestCollector_IsCleanForPromlint(t *testing.T) {
	metrics := holdfastprom.New(&holdfastprom.Options{Label: func(string) string { return "x" }})
	metrics.Observe(holdfast.Event{Kind: holdfast.EventFailed, Store: "s", Err: holdfast.ErrDenied})
	metrics.Observe(holdfast.Event{Kind: holdfast.EventGranted, Store: "s"})
	problems, err := testutil.CollectAndLint(metrics)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n := testutil.CollectAndCount(metrics); n != 12 {
		t.Errorf("linted %d series, want all 12", n)
	}
}

func TestCollector_IsUsedByManyAtATime(t *testing.T) {
	metrics := holdfastprom.New(&holdfastprom.Options{Label: func(name string) string { return name }})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 200 {
				e := holdfast.Event{Kind: holdfast.EventGranted, Name: fmt.Sprint(k % 5), Store: fmt.Sprint(i % 2)}
				metrics.Observe(e)
				e.Kind = holdfast.EventLost
				metrics.Observe(e)
				if k%50 == 0 {
					testutil.CollectAndCount(metrics)
				}
			}
		})
	}
	all.Wait()
	for s := range 2 {
		for name := range 5 {
			labels := map[string]string{"store": fmt.Sprint(s), "name": fmt.Sprint(name)}
			if v := value(t, metrics, "holdfast_losses_total", labels); v != 4*40 {
				t.Errorf("got %v losses of %v, want 160", v, labels)
			}
			if v := value(t, metrics, "holdfast_holds", labels); v != 0 {
				t.Errorf("got %v holds of %v, want none", v, labels)
			}
		}
	}
}

// A standby candidate may wait for days. That is no problem to report.
func TestAStandbyCandidateIsNotCountedAsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, mem := holdfastprom.New(nil), memstore.New()
		election := func() *holdfast.Election {
			locks, err := holdfast.New(mem, &holdfast.Options{Observer: metrics.Observe, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { locks.Close() })
			return locks.Election("scheduler")
		}
		leader, err := election().Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := election().Campaign(ctx); !errors.Is(err, holdfast.ErrHeld) { // it was stopped
			t.Fatal(err)
		}
		for metric, want := range map[string]float64{"holdfast_holds": 1, "holdfast_wait_seconds": 0, "holdfast_hold_seconds": 0, "holdfast_refusals_total": 0} {
			if v := value(t, metrics, metric, nil); v != want {
				t.Errorf("%s is %v, want %v", metric, v, want)
			}
		}
		if err := leader.Release(); err != nil {
			t.Fatal(err)
		}
	})
}
