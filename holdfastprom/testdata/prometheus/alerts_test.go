package prometheus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"

	"github.com/holdfast-go/holdfast"
)

// rulesOf returns the groups of alerting rules in docs/operate.md, evaluated on the database.
func rulesOf(t *testing.T, db *database) []*rules.Group {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for i, block := range regexp.MustCompile("(?ms)^```yaml\n(groups:\n.*?)^```$").FindAllSubmatch(page, -1) {
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprintf("%d.yml", i)))
		if err := os.WriteFile(files[i], block[1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(db.engine, db), AppendableV2: db, Queryable: db, Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 || len(groups) != 2 {
		t.Fatalf("got %d rule groups, want two, of jobs and of programs: %v", len(groups), errors.Join(errs...))
	}
	return slices.Collect(maps.Values(groups))
}

// A firing is when an alert fired first and when it ended, counted from the beginning of the story; 0 if it did not.
type firing struct{ from, to time.Duration }

// fired returns the alerts that a story fires.
func fired(t *testing.T, all []samples) map[string]firing {
	t.Helper()
	db := newDatabase(t)
	groups := rulesOf(t, db)
	is := map[string]firing{}
	for _, s := range all {
		db.add(t, s)
		var alerts []*rules.AlertingRule
		for _, g := range groups {
			g.Eval(t.Context(), s.at)
			alerts = append(alerts, g.AlertingRules()...)
		}
		for _, r := range alerts {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
			f, before := is[r.Name()]
			switch firing := r.State() == rules.StateFiring; {
			case firing && !before:
				f.from = s.at.Sub(all[0].at)
			case !firing && before && f.to == 0:
				f.to = s.at.Sub(all[0].at)
			case !before:
				continue
			}
			is[r.Name()] = f
		}
	}
	return is
}

const day = 24 * time.Hour

// works is a day of a healthy fleet: locks that are free and locks that are waited for, a standby candidate, outages
// too short to matter, and a job each night.
func works(p *process) {
	stop := make(chan struct{})
	done := make(chan struct{}, 3)
	for range 2 { // they compete
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := p.locks.Mutex("shared").Do(p.t.Context(), func(context.Context) error { time.Sleep(20 * time.Second); return nil })
				if err != nil {
					p.t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}()
	}
	go func() {
		defer func() { done <- struct{}{} }()
		leader, err := p.locks.Election("scheduler").Campaign(p.t.Context())
		if err != nil {
			p.t.Error(err)
			return
		}
		standby, err := holdfast.New(p.store, &holdfast.Options{Observer: p.metrics.Observe})
		if err != nil {
			p.t.Error(err)
			return
		}
		defer standby.Close()
		ctx, cancel := context.WithCancel(p.t.Context())
		go func() { <-stop; cancel() }()
		if _, err := standby.Election("scheduler").Campaign(ctx); err == nil {
			p.t.Error("two processes lead at once")
		}
		if err := leader.Release(); err != nil {
			p.t.Error(err)
		}
	}()
	for _, rest := range []time.Duration{day, 3 * time.Hour} {
		if err := p.lock("nightly").Release(); err != nil {
			p.t.Error(err)
		}
		time.Sleep(rest - time.Hour)
		p.away(3 * time.Second)
		time.Sleep(time.Hour)
	}
	close(stop)
	for range 3 {
		<-done
	}
}

func TestNoAlertFiresWhileAllIsWell(t *testing.T) {
	if is := fired(t, scraped(t, 0, works)); len(is) > 0 {
		t.Errorf("got alerts %v, want none", is)
	}
}

func TestEachAlertFiresForWhatItNames(t *testing.T) {
	const forever = 0
	for _, c := range []struct {
		alert    string
		story    func(p *process)
		from, to time.Duration // at the latest
	}{
		{"HoldfastLeaseLost", func(p *process) { // before the first scrape
			p.lock("nightly")
			p.store.Break("nightly")
			time.Sleep(10 * time.Minute)
		}, 2 * time.Minute, 15 * time.Minute},
		{"HoldfastLeaseLost", func(p *process) {
			p.lock("nightly")
			time.Sleep(25 * time.Minute)
			p.store.Break("nightly")
		}, 28 * time.Minute, 40 * time.Minute},
		{"HoldfastStoreUnavailable", func(p *process) {
			go func() { // it must ask, or nothing notices
				for range 60 {
					time.Sleep(20 * time.Second)
					if lease, err := p.locks.Mutex("often").TryLock(p.t.Context()); err == nil {
						lease.Release()
					}
				}
			}()
			p.lock("nightly").Release()
			time.Sleep(5 * time.Minute)
			p.away(10 * time.Minute)
		}, 9 * time.Minute, 25 * time.Minute},
		{"HoldfastRenewalsLate", func(p *process) {
			defer p.lock("nightly").Release()
			for range 60 {
				time.Sleep(10 * time.Second)
				p.metrics.Observe(holdfast.Event{Kind: holdfast.EventRenewed, Name: "nightly", Store: p.store.Describe().Store, After: 9 * time.Second})
			}
		}, 10 * time.Minute, 20 * time.Minute},
		{"HoldfastMisconfigured", func(p *process) {
			defer p.lock("nightly").Release()
			time.Sleep(5 * time.Minute)
			p.lock("other").Release()
			if _, err := p.locks.Semaphore("nightly", 3).Acquire(p.t.Context(), 1); !errors.Is(err, holdfast.ErrMismatch) {
				p.t.Error(err)
			}
		}, 7 * time.Minute, 25 * time.Minute},
		{"HoldfastWaitsLong", func(p *process) {
			for range 20 {
				lease := p.lock("nightly")
				time.AfterFunc(3*time.Minute, func() { lease.Release() })
				next, err := p.locks.Mutex("nightly").Lock(p.t.Context())
				if err != nil {
					p.t.Error(err)
					return
				}
				next.Release()
			}
		}, 35 * time.Minute, 80 * time.Minute},
		{"NightlyDidNotRun", func(p *process) {
			p.lock("nightly").Release()
			time.Sleep(26 * time.Hour)
		}, 26*time.Hour + 15*time.Minute, forever},
	} {
		t.Run(c.alert, func(t *testing.T) {
			is := fired(t, scraped(t, time.Hour, c.story))
			f, ok := is[c.alert]
			switch {
			case !ok:
				t.Errorf("the alert did not fire; fired: %v", is)
			case f.from > c.from:
				t.Errorf("the alert fired after %v, want %v", f.from, c.from)
			case c.to != forever && (f.to == 0 || f.to > c.to):
				t.Errorf("the alert ended after %v, want %v", f.to, c.to)
			case c.to == forever && f.to != 0:
				t.Errorf("the alert ended after %v, want it to go on", f.to)
			}
			delete(is, c.alert)
			if len(is) > 0 {
				t.Errorf("also fired: %v", is)
			}
		})
	}
}
