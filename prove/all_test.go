//go:build proveall && (linux || darwin)

package prove

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What make prove-all runs: the number of seeds for each right store and for each broken lock.
const (
	rightSeeds  = 20
	brokenSeeds = 10
	rightFor    = 20 * time.Second
	brokenFor   = 60 * time.Second
	coupleFor   = 6 * time.Minute // a fail-over must come at the right moment
	fewSeeds    = 3               // for runs that take longer
)

// A record is one finished run, as a line of the file of records.
type record struct {
	Store  string         `json:"store,omitempty"`
	Broken string         `json:"broken,omitempty"`
	Kind   string         `json:"kind,omitempty"` // of run; empty: the usual one
	Seed   uint64         `json:"seed"`
	Proved bool           `json:"proved"`
	Why    string         `json:"why,omitempty"` // why it was not proved
	Found  int            `json:"found,omitempty"`
	Took   time.Duration  `json:"took"`
	Grants int            `json:"grants"`
	Waits  int            `json:"waits"`
	Handed int            `json:"handed,omitempty"` // handed over inside a process
	Losses int            `json:"losses"`
	Caught int            `json:"caught"` // late uses that the fence refused
	Faults map[string]int `json:"faults"`
}

// records are the runs so far. A run that is in the file is not run again.
type records struct {
	path string

	mu  sync.Mutex
	all []record
}

func readRecords(t *testing.T, path string) *records {
	r := &records{path: path}
	f, err := os.Open(path)
	if err != nil {
		return r
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var x record
		in := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		in.DisallowUnknownFields()
		if err := in.Decode(&x); err != nil {
			t.Fatalf("%s is of another version; remove it: %v", path, err)
		}
		r.all = append(r.all, x)
	}
	return r
}

func (r *records) has(want record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(x record) bool {
		return x.Store == want.Store && x.Broken == want.Broken && x.Kind == want.Kind && x.Seed == want.Seed
	})
}

func (r *records) add(t *testing.T, x record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(x); err != nil {
		t.Fatal(err)
	}
	r.all = append(r.all, x)
}

// sum adds up the runs of a right store.
func (r *records) sum(store, kind string) (sum record, runs, proved, faults int) {
	for _, x := range r.all {
		if x.Store != store || x.Broken != "" || x.Kind != kind {
			continue
		}
		runs, proved = runs+1, proved+count(x.Proved)
		sum.Grants, sum.Waits, sum.Losses, sum.Caught = sum.Grants+x.Grants, sum.Waits+x.Waits, sum.Losses+x.Losses, sum.Caught+x.Caught
		sum.Handed += x.Handed
		for _, n := range x.Faults {
			faults += n
		}
	}
	return sum, runs, proved, faults
}

// elsewhere are the stores whose server cannot be started here, each with the variable that names one.
var elsewhere = map[string]string{"SQL Server": "HOLDFAST_TEST_SQLSERVER"}

// absent reports whether there is no server for the store: its url skips the test.
func (s *rightStore) absent() bool {
	named := elsewhere[s.name]
	return named != "" && os.Getenv(named) == ""
}

// start reads the finished runs, from the directory that the environment names or from .prove.
func start(t *testing.T) *records {
	dir := cmp.Or(os.Getenv("HOLDFAST_PROVE_RECORDS"), filepath.Join("..", ".prove"))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return readRecords(t, filepath.Join(dir, "runs.jsonl"))
}

// urls starts the servers of the stores that still have seeds to run.
func (r *records) urls(t *testing.T, kind string, seeds int) map[string]string {
	all := map[string]string{}
	for _, s := range provable {
		if _, runs, _, _ := r.sum(s.name, kind); runs < seeds && !s.absent() {
			all[s.name] = s.url(t)
		}
	}
	return all
}

// TestAllSeeds runs what has not been run yet, seed by seed, and writes the figures into docs/proof.md after each. The
// runs of one seed are parallel, as many as -parallel says: each spends most of its time waiting.
func TestAllSeeds(t *testing.T) {
	r := start(t)
	bin, urls := buildBroken(t), r.urls(t, "", rightSeeds)
	for seed := uint64(1); seed <= rightSeeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, s := range provable {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					r.right(t, &s, urls[s.name], bin, seed)
				})
			}
			for _, b := range brokenLocks {
				if seed > brokenSeeds {
					break
				}
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					r.broken(t, &b, bin, seed)
				})
			}
		})
		r.write(t)
	}
	r.judge(t, bin)
}

// TestAllSeedsWide runs each store that has deadlines with many claims at once.
func TestAllSeedsWide(t *testing.T) {
	r := start(t)
	urls := r.urls(t, "wide", fewSeeds)
	r.each(t, func(t *testing.T, run func(string, func(*testing.T)), seed uint64) {
		for _, s := range provable {
			run(s.name, func(t *testing.T) {
				x := record{Store: s.name, Kind: "wide", Seed: seed}
				if s.absent() {
					s.url(t)
				}
				if r.has(x) {
					return
				}
				if o := s.wide(t, urls[s.name], seed); o != nil {
					o.For, o.Processes = rightFor, 6
					r.run(t, o, x)
				}
			})
		}
	})
}

// TestAllSeedsOfServers runs servers that are replaced, and servers that are full. Where a server is missing, its runs
// are skipped.
func TestAllSeedsOfServers(t *testing.T) {
	r := start(t)
	r.each(t, func(t *testing.T, run func(string, func(*testing.T)), seed uint64) {
		for _, name := range slices.Sorted(maps.Keys(newest)) {
			run(name+" is replaced", func(t *testing.T) {
				x := record{Store: name, Kind: string(failover), Seed: seed}
				if r.has(x) {
					return
				}
				o := newCouple(t, newest[name]).replaced(seed)
				o.For = rightFor
				r.run(t, o, x)
			})
			run(name+" is full", func(t *testing.T) {
				x := record{Store: name, Kind: string(full), Seed: seed}
				if r.has(x) {
					return
				}
				o := fullNow(t, newest[name], seed)
				o.For = rightFor
				if report := r.run(t, o, x); report != nil {
					losesNothing(t, report)
				}
			})
		}
	})
}

// each runs all for each of a few seeds, in parallel, and writes the figures after each.
func (r *records) each(t *testing.T, all func(t *testing.T, run func(string, func(*testing.T)), seed uint64)) {
	for seed := uint64(1); seed <= fewSeeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			all(t, func(name string, f func(*testing.T)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f(t)
				})
			}, seed)
		})
		r.write(t)
	}
}

// manyGrants are the stores that each need HOLDFAST_PROVE_GRANTS grants that were waited for. The others need a tenth
// of that. Processes cannot compete for a lock in memory.
var manyGrants = []string{"file", "Redis", "PostgreSQL", "etcd"}

// TestAllGrants runs until each store that processes can compete on has had that many grants that were waited for. It
// writes the figures after each run.
func TestAllGrants(t *testing.T) {
	r := start(t)
	least, err := strconv.Atoi(os.Getenv("HOLDFAST_PROVE_GRANTS"))
	if err != nil {
		t.Fatalf("HOLDFAST_PROVE_GRANTS: %v", err)
	}
	for _, s := range provable[1:] {
		least := least
		if !slices.Contains(manyGrants, s.name) {
			least /= 10
		}
		t.Run(s.name, func(t *testing.T) {
			url := s.url(t)
			for seed := uint64(1); ; seed++ {
				if sum, _, _, _ := r.sum(s.name, "dense"); sum.Waits >= least {
					return
				}
				r.dense(t, s.name, url, seed)
				r.write(t)
			}
		})
	}
}

// Eight processes compete for one name of a majority for a minute, under another seed each time.
func TestAllOnOneName(t *testing.T) {
	o := options(onRedlock(t, 3, 0), uint64(rand.Uint32()))
	if s := os.Getenv("HOLDFAST_TEST_SEED"); s != "" {
		o.Seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("HOLDFAST_TEST_SEED=%d", o.Seed)
	o.For, o.Processes, o.Names, o.Mode = time.Minute, 8, 1, "mutex"
	proved(t, o)
}

func (r *records) dense(t *testing.T, name, url string, seed uint64) {
	o := options(url, seed)
	o.For, o.Dense, o.Processes, o.Names = rightFor, true, 8, 9
	r.run(t, o, record{Store: name, Kind: "dense", Seed: seed})
}

func (r *records) right(t *testing.T, s *rightStore, url, bin string, seed uint64) {
	if s.absent() {
		s.url(t)
	}
	o := s.options(url, bin, seed)
	o.For, o.Processes = rightFor, 6
	r.run(t, o, record{Store: s.name, Seed: seed})
}

func (r *records) broken(t *testing.T, b *brokenLock, bin string, seed uint64) {
	o := b.options(t, bin, seed)
	o.Processes = 6
	switch {
	case b.on == couple8:
		o.For = coupleFor
	case !b.atEnd:
		o.For = brokenFor
	case b.wide:
		o.For = brokenFor / 2
	}
	r.run(t, o, record{Store: b.on, Broken: b.name, Seed: seed})
}

// run makes a run that has not been made yet, and returns its report.
func (r *records) run(t *testing.T, o *Options, x record) *Report {
	if r.has(x) {
		return nil
	}
	began := time.Now()
	report, err := Prove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.took(t, report, x, time.Since(began))
	return report
}

// took records a run that took so long.
func (r *records) took(t *testing.T, report *Report, x record, d time.Duration) {
	v, f := report.Verdict, &report.Verdict.Figures
	x.Took, x.Proved, x.Grants, x.Waits, x.Losses, x.Caught, x.Faults = d, v.Proved, f.Grants, f.Waits, f.Losses, f.Late, f.Faults
	x.Handed = f.HandedOn
	x.Why = strings.Join(v.TooLittle, "; ")
	if len(v.Violations) > 0 {
		x.Found, x.Why = v.Violations[0].Check, v.Violations[0].Text
	}
	if x.Broken == "" && !x.Proved {
		var text strings.Builder
		report.Print(&text)
		t.Errorf("%s, seed %d:\n%s", x.Store, x.Seed, text.String())
		r.keep(t, report, fmt.Sprintf("%s-%s-%d", x.Store, x.Kind, x.Seed))
	}
	t.Logf("%s %s seed %d: proved %v, found by %d, %d grants, %v", x.Store, x.Broken, x.Seed, x.Proved, x.Found, x.Grants, x.Took)
	r.add(t, x)
}

// keep writes the history of a run that should have been proved.
func (r *records) keep(t *testing.T, report *Report, name string) {
	f, err := os.Create(filepath.Join(filepath.Dir(r.path), name+".jsonl"))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if err := report.history.Write(f); err != nil {
		t.Error(err)
	}
}

// judge fails the test for a broken lock that too few seeds found.
func (r *records) judge(t *testing.T, bin string) {
	for _, b := range brokenLocks {
		if found := r.found(b.name); found < brokenSeeds-1 {
			t.Run(b.name, func(t *testing.T) {
				b.options(t, bin, 1) // this skips the test where its server is missing
				t.Errorf("found for %d of %d seeds", found, brokenSeeds)
			})
		}
	}
}

// found is the number of seeds that found a broken lock.
func (r *records) found(name string) (n int) {
	for _, x := range r.all {
		n += count(x.Broken == name && x.Found > 0)
	}
	return n
}
