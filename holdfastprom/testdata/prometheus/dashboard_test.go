package prometheus

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/holdfast-go/holdfast"
)

// everything is a story that gives each metric a value.
func everything(p *process) {
	lease := p.lock("lost")
	p.lock("held").Release()
	time.Sleep(150 * time.Second) // otherwise the series would begin with what follows, and not increase
	held := p.lock("held")
	if _, err := p.locks.Mutex("held").TryLock(p.t.Context()); !errors.Is(err, holdfast.ErrHeld) {
		p.t.Error(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { held.Release() })
	next, err := p.locks.Mutex("held").Lock(p.t.Context()) // the hold is handed over to it
	if err != nil {
		p.t.Error(err)
		return
	}
	time.Sleep(10 * time.Minute)
	next.Release()
	p.away(time.Minute)
	if lease.Valid() {
		p.t.Error("the lease was not lost")
	}
	p.lock("held").Release()
}

// Each panel shows data once there is some, and the dashboard is valid for Grafana's own library.
func TestEachPanelOfTheDashboardShowsWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("../../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board dashboard.Dashboard
	if err := board.UnmarshalJSONStrict(text); err != nil && err.Error() != "" { // the library returns an empty list of errors, too
		t.Fatal(err)
	}
	if err := board.Validate(); err != nil {
		t.Error(err)
	}
	db := newDatabase(t)
	all := scraped(t, 3*time.Minute, everything)
	for _, s := range all {
		db.add(t, s)
	}
	now := all[len(all)-1].at
	var plain struct { // the parts that the library leaves open
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "30m", "$__range", "1h", "$store", ".*")
	for _, panel := range plain.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("%s: got no query", panel.Title)
		}
		for _, target := range panel.Targets {
			expr := variables.Replace(target.Expr)
			query, err := db.engine.NewInstantQuery(t.Context(), db, nil, expr, now)
			if err != nil {
				t.Errorf("%s: %v", panel.Title, err)
				continue
			}
			vector, err := query.Exec(t.Context()).Vector()
			sum := 0.0
			for _, sample := range vector {
				if !math.IsNaN(sample.F) {
					sum += sample.F
				}
			}
			if zero := panel.Title == "Held now" || panel.Title == "Held, by process"; err != nil || len(vector) == 0 || (sum == 0) != zero { // all locks were released
				t.Errorf("%s: %s shows %v (%v)", panel.Title, expr, vector, err)
			}
			query.Close()
		}
	}
	if stores, _, err := querier(t, db).LabelValues(t.Context(), "store", nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "holdfast_holds")); err != nil || len(stores) != 1 {
		t.Errorf("got choice of stores %v, %v, want one", stores, err)
	}
	if !strings.Contains(string(text), `"label_values(holdfast_holds, store)"`) {
		t.Error("the dashboard selects stores with another query than this test")
	}
}
