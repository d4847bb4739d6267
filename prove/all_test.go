//go:build proveall && (linux || darwin)

package prove

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
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

// What make prove-all runs: each store that is right on so many seeds, each
// broken lock on so many.
const (
	rightSeeds  = 20
	brokenSeeds = 10
	rightFor    = 20 * time.Second
	brokenFor   = 60 * time.Second
)

// A record is one finished run, as a line of the file of records.
type record struct {
	Store  string         `json:"store,omitempty"`
	Broken string         `json:"broken,omitempty"`
	Dense  bool           `json:"dense,omitempty"`
	Seed   uint64         `json:"seed"`
	Proved bool           `json:"proved"`
	Why    string         `json:"why,omitempty"` // it was not
	Found  int            `json:"found,omitempty"`
	Took   time.Duration  `json:"took"`
	Grants int            `json:"grants"`
	Waits  int            `json:"waits"`
	Handed int            `json:"handed,omitempty"` // over inside a process
	Losses int            `json:"losses"`
	Caught int            `json:"caught"` // late uses, by the fence
	Faults map[string]int `json:"faults"`
}

// records are the runs so far: what is in the file is not run again.
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
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r.all = append(r.all, x)
	}
	return r
}

func (r *records) has(want record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(x record) bool {
		return x.Store == want.Store && x.Broken == want.Broken && x.Dense == want.Dense && x.Seed == want.Seed
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
func (r *records) sum(store string, dense bool) (sum record, runs, proved, faults int) {
	for _, x := range r.all {
		if x.Store != store || x.Broken != "" || x.Dense != dense {
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

// start reads what has been run, from the directory that is named in the
// environment or from .prove.
func start(t *testing.T) *records {
	dir := cmp.Or(os.Getenv("HOLDFAST_PROVE_RECORDS"), filepath.Join("..", ".prove"))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return readRecords(t, filepath.Join(dir, "runs.jsonl"))
}

// urls starts the servers of the stores of which not all seeds have been run.
func (r *records) urls(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, s := range provable {
		if _, runs, _, _ := r.sum(s.name, false); runs < rightSeeds {
			all[s.name] = s.url(t)
		}
	}
	return all
}

// TestAllSeeds runs what has not been run yet, seed by seed, and writes the
// figures into docs/proof.md after each. The runs of one seed go side by side,
// as many as -parallel says: each spends most of its time waiting.
func TestAllSeeds(t *testing.T) {
	r := start(t)
	bin, urls := buildBroken(t), r.urls(t)
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
	r.judge(t)
}

// manyGrants are the stores of which each has to have HOLDFAST_PROVE_GRANTS grants that were waited for,
// and the others a tenth of that. In memory no processes can fight.
var manyGrants = []string{"file", "Redis", "PostgreSQL", "etcd"}

// TestAllGrants goes on until each store on which processes can fight has had
// so many grants that were waited for, and writes the figures after each run.
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
				if sum, _, _, _ := r.sum(s.name, true); sum.Waits >= least {
					return
				}
				r.dense(t, s.name, url, seed)
				r.write(t)
			}
		})
	}
}

// Eight processes on one name of a majority, for a minute, under another seed
// each time.
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
	r.run(t, o, record{Store: name, Dense: true, Seed: seed})
}

func (r *records) right(t *testing.T, s *rightStore, url, bin string, seed uint64) {
	o := s.options(url, bin, seed)
	o.For, o.Processes = rightFor, 6
	r.run(t, o, record{Store: s.name, Seed: seed})
}

func (r *records) broken(t *testing.T, b *brokenLock, bin string, seed uint64) {
	o := b.options(t, bin, seed)
	o.Processes = 6
	if !b.atEnd {
		o.For = brokenFor
	}
	r.run(t, o, record{Store: b.on, Broken: b.name, Seed: seed})
}

func (r *records) run(t *testing.T, o *Options, x record) {
	if r.has(x) {
		return
	}
	began := time.Now()
	report, err := Prove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v, f := report.Verdict, &report.Verdict.Figures
	x.Took, x.Proved, x.Grants, x.Waits, x.Losses, x.Caught, x.Faults = time.Since(began), v.Proved, f.Grants, f.Waits, f.Losses, f.Late, f.Faults
	x.Handed = f.HandedOn
	x.Why = strings.Join(v.TooLittle, "; ")
	if len(v.Violations) > 0 {
		x.Found, x.Why = v.Violations[0].Check, v.Violations[0].Text
	}
	if x.Broken == "" && !x.Proved {
		var text strings.Builder
		report.Print(&text)
		t.Errorf("%s, seed %d:\n%s", x.Store, x.Seed, text.String())
		r.keep(t, report, fmt.Sprintf("%s-%v-%d", x.Store, x.Dense, x.Seed))
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
func (r *records) judge(t *testing.T) {
	for _, b := range brokenLocks {
		found := 0
		for _, x := range r.all {
			found += count(x.Broken == b.name && x.Found > 0)
		}
		if found < brokenSeeds-1 {
			t.Errorf("%s: found from %d of %d seeds", b.name, found, brokenSeeds)
		}
	}
}

const (
	begin = "<!-- figures: written by make prove-all -->\n"
	end   = "<!-- end of figures -->\n"
)

// write puts the figures between the marks of the page.
func (r *records) write(t *testing.T) {
	path := filepath.Join("..", "docs", "proof.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for the figures", path)
	}
	var b strings.Builder
	for _, dense := range []bool{false, true} {
		if dense {
			b.WriteString("\nDense:\n")
		}
		b.WriteString("\n| store | runs | proved | grants | of them waited for | handed over in a process | losses told | late uses refused by the fence | faults |\n|---|---|---|---|---|---|---|---|---|\n")
		for _, s := range provable {
			if sum, runs, proved, faults := r.sum(s.name, dense); runs > 0 {
				fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", s.name, runs, proved, sum.Grants, sum.Waits, sum.Handed, sum.Losses, sum.Caught, faults)
			}
		}
	}
	b.WriteString("\n| broken lock | on | under | found | in the median | by check |\n|---|---|---|---|---|---|\n")
	for _, l := range brokenLocks {
		var took []time.Duration
		by := map[int]bool{}
		runs := 0
		for _, x := range r.all {
			if x.Broken != l.name {
				continue
			}
			if runs++; x.Found > 0 {
				took, by[x.Found] = append(took, x.Took), true
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		var numbers []string
		for _, c := range checks {
			if by[int(c)] {
				numbers = append(numbers, strconv.Itoa(int(c)))
			}
		}
		under := join(slices.Compact(slices.Clone(l.faults)))
		if l.server != "" {
			under += ", " + string(l.server)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d of %d | %.1f s | %s |\n", l.name, l.on, under, len(took), runs, took[len(took)/2].Seconds(), strings.Join(numbers, ", "))
	}
	b.WriteString("\n")
	if err := os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o666); err != nil {
		t.Fatal(err)
	}
}
