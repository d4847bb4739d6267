//go:build proveall

package prove

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// TestAllSeedsOfRun stops both processes of `holdfast run`, right and broken.
func TestAllSeedsOfRun(t *testing.T) {
	r := start(t)
	set := buildRun(t)
	one := func(t *testing.T, alive int, x record) *Report {
		if r.has(x) {
			return nil
		}
		began := time.Now()
		report := stopped(t, set, alive, x.Seed, rightFor)
		r.took(t, report, x, time.Since(began))
		return report
	}
	r.each(t, func(t *testing.T, run func(string, func(*testing.T)), seed uint64) {
		run("right", func(t *testing.T) { one(t, mutant.None, record{Store: ranOn, Kind: string(stopBoth), Seed: seed}) })
		run(nobodyActs, func(t *testing.T) {
			one(t, 0, record{Store: ranOn, Broken: nobodyActs, Kind: string(stopBoth), Seed: seed})
		})
	})
	if found := r.found(nobodyActs); found < fewSeeds {
		t.Errorf("%s: found for %d of %d seeds", nobodyActs, found, fewSeeds)
	}
}
