// Package prometheus tests what Prometheus and Grafana make of the metrics of holdfastprom.
package prometheus

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/memstore"
)

// interval is the default interval of Prometheus for scrapes and for the evaluation of rules.
const interval = time.Minute

// A process is a scraped process that uses holdfast.
type process struct {
	t       *testing.T
	store   *memstore.Store
	metrics *holdfastprom.Collector
	locks   *holdfast.Locker
}

// lock takes the lock without waiting.
func (p *process) lock(name string) *holdfast.Lease {
	p.t.Helper()
	lease, err := p.locks.Mutex(name).TryLock(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return lease
}

// away makes the store unreachable for so long.
func (p *process) away(d time.Duration) {
	p.store.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
	time.Sleep(d)
	p.store.Fail(nil)
}

// samples are the result of a scrape.
type samples struct {
	at       time.Time
	families []*dto.MetricFamily
}

// scraped runs a story in a bubble, in which hours pass at once. It returns the scrapes from just before the story
// until `after` has passed since its end.
func scraped(t *testing.T, after time.Duration, story func(p *process)) (all []samples) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := &process{t: t, store: memstore.New(), metrics: holdfastprom.New(&holdfastprom.Options{Label: func(name string) string { return name }})}
		registry.MustRegister(p.metrics)
		var err error
		p.locks, err = holdfast.New(p.store, &holdfast.Options{Observer: p.metrics.Observe, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		scrape := func() {
			families, err := registry.Gather()
			if err != nil {
				t.Error(err)
			}
			all = append(all, samples{time.Now(), families})
		}
		end, ended := make(chan struct{}), make(chan struct{})
		scrape()
		go func() {
			defer close(ended)
			for tick := time.NewTicker(interval); ; {
				select {
				case <-tick.C:
					scrape()
				case <-end:
					return
				}
			}
		}()
		story(p)
		time.Sleep(after)
		p.locks.Close()
		close(end)
		<-ended
	})
	return all
}

// database is the database of a Prometheus, without its scraper.
type database struct {
	*teststorage.TestStorage
	engine *promql.Engine
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return &database{teststorage.New(t), promqltest.NewTestEngine(t, false, 5*time.Minute, 50e6)}
}

// add stores the result of a scrape, as Prometheus does.
func (db *database) add(t *testing.T, s samples) {
	t.Helper()
	to := db.AppenderV2(t.Context())
	for _, f := range s.families {
		for _, m := range f.GetMetric() {
			add := func(suffix string, v float64, more ...string) {
				b := labels.NewBuilder(labels.FromStrings(append(more, "__name__", f.GetName()+suffix, "job", "app", "instance", "web-3:8080")...))
				for _, l := range m.GetLabel() {
					b.Set(l.GetName(), l.GetValue())
				}
				if _, err := to.Append(0, b.Labels(), 0, s.at.UnixMilli(), v, nil, nil, storage.AOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			switch h := m.GetHistogram(); {
			case h == nil:
				add("", m.GetCounter().GetValue()+m.GetGauge().GetValue())
			default:
				for _, b := range h.GetBucket() {
					add("_bucket", float64(b.GetCumulativeCount()), "le", fmt.Sprint(b.GetUpperBound()))
				}
				add("_bucket", float64(h.GetSampleCount()), "le", "+Inf")
				add("_sum", h.GetSampleSum())
				add("_count", float64(h.GetSampleCount()))
			}
		}
	}
	if err := to.Commit(); err != nil {
		t.Fatal(err)
	}
}

// querier reads everything that is stored.
func querier(t *testing.T, db *database) storage.Querier {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}
