//go:build linux || darwin

package prove

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// widen makes the run issue many claims at once.
func widen(o *Options) {
	o.Wide, o.Names, o.For, o.TTL = true, 60, 8*time.Second, 2*time.Second
}

// wide are the options of a run with many claims at once. Connections fall silent and are reset, and requests on them
// get no answer, or arrive late. A store without a network gets all its faults. nil: the store has no deadlines.
func (s *rightStore) wide(t *testing.T, url string, seed uint64) *Options {
	t.Helper()
	o := options(url, seed)
	widen(o)
	way := ways[schemeOf(url)]
	if way.network {
		o.Faults = []Fault{silence, late}
	}
	opened, err := way.open(url, dialDirect)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d := opened.Describe()
	if _, lacks := d.Lacks[store.PromiseDeadline]; lacks {
		return nil
	}
	o.TTL = max(o.TTL, d.MinTTL)
	return o
}

// usuallyWide are the stores whose sessions keep what a process has lost track of, and one store without sessions. The
// others take long and run in make nightly.
var usuallyWide = []string{"Redis", "etcd", "ZooKeeper", "NATS"}

// Many claims at once, most of them soon given up, beside a hold that lasts as long as its process.
func TestManyClaimsDuringALastingHoldAreProved(t *testing.T) {
	t.Parallel()
	for _, s := range provable {
		if !testserver.Nightly() && !slices.Contains(usuallyWide, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := s.wide(t, s.url(t), 1)
			if o == nil {
				return
			}
			r := proved(t, o)
			lasting := 0
			for _, e := range r.history.Events {
				if e.Do == ask && strings.Contains(e.Name, "/last/") {
					lasting++
				}
			}
			if lasting < o.Processes {
				t.Errorf("got %d lasting holds, want one for each of %d processes", lasting, o.Processes)
			}
		})
	}
}
