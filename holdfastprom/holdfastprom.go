// Package holdfastprom counts acquisitions, waits, losses and failures of locks, for Prometheus:
//
//	metrics := holdfastprom.New(nil)
//	prometheus.MustRegister(metrics)
//	locks, err := holdfast.New(store, &holdfast.Options{Observer: metrics.Observe})
//
// # Metrics
//
//	holdfast_holds                               gauge: what this process holds
//	holdfast_wait_seconds                        histogram: from the call to the grant, or the hand-over
//	holdfast_hold_seconds                        histogram: from the grant to the release, or the loss
//	holdfast_last_grant_timestamp_seconds        gauge: when a claim last got its hold, in Unix time
//	holdfast_handovers_total                     claims that got their hold inside the process, without the store
//	holdfast_refusals_total                      claims that ended without a hold as others were ahead
//	holdfast_losses_total                        holds that were lost
//	holdfast_failures_total{operation,reason}    claims, renewals and releases that failed
//	holdfast_renewal_lateness_seconds            histogram: from when a renewal was due to its answer
//
// All have the label store, which is the description of the store, such as "Redis at 10.0.0.1:6379,
// database 0". The operation is claim, renewal or release. The reason is indeterminate (the store
// did not answer before the claim's deadline, or the outcome is indeterminate), denied, corrupt,
// mismatch or other. A failed renewal is repeated, so it does no harm yet; each attempt counts. A
// claim that its caller canceled before the store had answered is not counted. Waits, refusals and
// hold times of elections are not counted: a standby candidate may wait for days, and the terms of
// leaders would hide the hold times of locks.
//
// There is no label for the lock's name unless [Options.Label] makes one: the number of names such
// as invoice/42 is unbounded, and each would be a series forever.
//
// In the repository docs/operate.md has alerting rules, and docs/grafana.json is a dashboard.
package holdfastprom

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
)

// Options configure a Collector; nil is the same as an empty one.
type Options struct {
	// Label returns the value of the label "name" for the name of a lock: "invoice" for invoice/42.
	// It must return one of a few values, because each is a series. It must be quick, always return
	// the same value for a name, and be safe for concurrent use. Default: no such label.
	Label func(name string) string
}

// A Collector is a [prometheus.Collector] of the events passed to Observe. One Collector may serve
// several lockers at a time. Its methods are safe for concurrent use.
type Collector struct {
	label func(string) string

	holds     *prometheus.GaugeVec
	waits     *prometheus.HistogramVec
	held      *prometheus.HistogramVec
	last      *prometheus.GaugeVec
	handovers *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	losses    *prometheus.CounterVec
	failures  *prometheus.CounterVec
	lateness  *prometheus.HistogramVec

	mu     sync.RWMutex
	series map[[2]string]*series // by store and label
}

// series are the series of one store and label, so that an event need not look them up one by one.
type series struct {
	holds                       prometheus.Gauge
	handovers, refusals, losses prometheus.Counter
	waits, held, lateness       prometheus.Observer
	failures                    *prometheus.CounterVec
	last                        func() prometheus.Gauge // creates the series: there is none before the first grant
}

// New returns a Collector. Register it, and set [holdfast.Options].Observer of each locker to its
// Observe. o may be nil.
func New(o *Options) *Collector {
	c := &Collector{series: map[[2]string]*series{}}
	labels := []string{"store"}
	if o != nil && o.Label != nil {
		c.label = o.Label
		labels = append(labels, "name")
	}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, more...))
	}
	seconds := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	c.holds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_holds", Help: "Holds that this process has.",
	}, labels)
	long := []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	c.waits = seconds("holdfast_wait_seconds", "How long claims took from the call to the grant.", long...)
	c.held = seconds("holdfast_hold_seconds", "How long holds lasted from the grant to the release or the loss.", long...)
	c.last = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_last_grant_timestamp_seconds", Help: "When a claim last got its hold, in Unix time.",
	}, labels)
	c.handovers = counter("holdfast_handovers_total", "Claims that got their hold from another of this process.")
	c.refusals = counter("holdfast_refusals_total", "Claims that ended without a hold as others were ahead.")
	c.losses = counter("holdfast_losses_total", "Holds that were lost.")
	c.failures = counter("holdfast_failures_total", "Claims, attempts to renew and releases that failed; indeterminate: the outcome is not known.", "operation", "reason")
	c.lateness = seconds("holdfast_renewal_lateness_seconds", "How long after they were due renewals were answered.",
		0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
	return c
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, v := range c.all() {
		v.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, v := range c.all() {
		v.Collect(to)
	}
}

func (c *Collector) all() []prometheus.Collector {
	return []prometheus.Collector{c.holds, c.waits, c.held, c.last, c.handovers, c.refusals, c.losses, c.failures, c.lateness}
}

// Observe is for [holdfast.Options].Observer. It does no I/O and does not block.
func (c *Collector) Observe(e holdfast.Event) {
	s := c.of(e)
	switch e.Kind {
	case holdfast.EventGranted, holdfast.EventHandedOver:
		if e.Kind == holdfast.EventHandedOver {
			s.handovers.Inc()
		}
		s.holds.Inc()
		s.last().SetToCurrentTime() //mutant:prom-last
		if !e.Candidate {           //mutant:prom-waits
			s.waits.Observe(e.After.Seconds())
		}
	case holdfast.EventRefused:
		if !e.Candidate {
			s.refusals.Inc()
		}
	case holdfast.EventFailed:
		if !errors.Is(e.Err, context.Canceled) { //mutant:prom-canceled
			s.fail("claim", e.Err)
		}
	case holdfast.EventRenewed:
		s.lateness.Observe(e.After.Seconds())
	case holdfast.EventRenewalFailed:
		s.fail("renewal", e.Err)
	case holdfast.EventReleased, holdfast.EventLost:
		s.holds.Dec()     //mutant:prom-holds
		if !e.Candidate { //mutant:prom-terms
			s.held.Observe(e.After.Seconds())
		}
		if e.Kind == holdfast.EventLost {
			s.losses.Inc() //mutant:prom-loss
		} else if e.Err != nil {
			s.fail("release", e.Err)
		}
	}
}

func (s *series) fail(operation string, err error) {
	s.failures.WithLabelValues(operation, reason(err)).Inc()
}

const indeterminate = "indeterminate"

// reason returns one of a few values. A claim whose context ended before the store had answered is
// indeterminate too. adapters/holdfastotel has the same function, and must return the same: they
// share no internal package, since the root module in use may be newer than this module.
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

// of returns the series of the event. All of them, except the time of the last grant, begin at 0
// together. So an increase is seen from the first loss on, and a rule needs no "or vector(0)".
// Prometheus does not see what the first event itself counts as an increase, because it has not
// seen the 0.
func (c *Collector) of(e holdfast.Event) *series {
	key := [2]string{text(e.Store)}
	if c.label != nil {
		key[1] = text(c.label(e.Name))
	}
	c.mu.RLock()
	s := c.series[key]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s = c.series[key]; s != nil {
		return s
	}
	values := []string{key[0]}
	labels := prometheus.Labels{"store": key[0]}
	if c.label != nil {
		values = append(values, key[1])
		labels["name"] = key[1]
	}
	s = &series{
		holds: c.holds.WithLabelValues(values...), waits: c.waits.WithLabelValues(values...), held: c.held.WithLabelValues(values...),
		handovers: c.handovers.WithLabelValues(values...),
		refusals:  c.refusals.WithLabelValues(values...), losses: c.losses.WithLabelValues(values...),
		lateness: c.lateness.WithLabelValues(values...), failures: c.failures.MustCurryWith(labels),
		last: func() prometheus.Gauge { return c.last.WithLabelValues(values...) },
	}
	for _, operation := range []string{"claim", "renewal", "release"} {
		s.failures.WithLabelValues(operation, indeterminate)
	}
	c.series[key] = s
	return s
}

// text makes s a valid label value: a directory's name need not be valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
