//go:build proveall && (linux || darwin)

package prove

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
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
	Seed   uint64         `json:"seed"`
	Proved bool           `json:"proved"`
	Why    string         `json:"why,omitempty"` // it was not
	Found  int            `json:"found,omitempty"`
	Took   time.Duration  `json:"took"`
	Grants int            `json:"grants"`
	Waits  int            `json:"waits"`
	Losses int            `json:"losses"`
	Caught int            `json:"caught"`
	Faults map[string]int `json:"faults"`
}

// records are the runs so far: what is in the file is not run again.
type records struct {
	path string
	all  []record
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

func (r *records) has(store, broken string, seed uint64) bool {
	return slices.ContainsFunc(r.all, func(x record) bool { return x.Store == store && x.Broken == broken && x.Seed == seed })
}

func (r *records) add(t *testing.T, x record) {
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

// grants of a right store.
func (r *records) grants(store string) (n int) {
	for _, x := range r.all {
		if x.Store == store && x.Broken == "" {
			n += x.Grants
		}
	}
	return n
}

// TestAll runs what has not been run yet, seed by seed, and writes the figures
// into docs/proof.md after each.
func TestAll(t *testing.T) {
	root := filepath.Join("..", "..")
	dir := filepath.Join(root, ".prove")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := readRecords(t, filepath.Join(dir, "runs.jsonl"))
	least, _ := strconv.Atoi(os.Getenv("HOLDFAST_PROVE_GRANTS"))
	bin := buildBroken(t)
	urls := map[string]string{"memory": "mem:", "file": "file:" + t.TempDir(), "Redis": "redis://" + testserver.SharedRedis(t)}
	stores := []string{"memory", "file", "Redis"}
	for seed := uint64(1); ; seed++ {
		more := seed < rightSeeds
		for _, s := range stores {
			if seed <= rightSeeds || r.grants(s) < least {
				r.right(t, s, urls[s], seed)
			}
			more = more || r.grants(s) < least
		}
		for _, b := range brokenLocks {
			if seed <= brokenSeeds && !r.has(b.on, b.name, seed) {
				r.broken(t, &b, bin, seed)
			}
		}
		r.write(t, filepath.Join(root, "docs", "proof.md"), stores)
		if !more {
			break
		}
	}
	r.judge(t)
}

func (r *records) right(t *testing.T, name, url string, seed uint64) {
	if r.has(name, "", seed) {
		return
	}
	o := options(url, seed)
	o.For = rightFor
	r.run(t, o, record{Store: name, Seed: seed})
}

func (r *records) broken(t *testing.T, b *brokenLock, bin string, seed uint64) {
	o := b.options(t, bin, seed)
	if !b.atEnd {
		o.For = brokenFor
	}
	r.run(t, o, record{Store: b.on, Broken: b.name, Seed: seed})
}

func (r *records) run(t *testing.T, o *Options, x record) {
	start := time.Now()
	report, err := Prove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v, f := report.Verdict, &report.Verdict.Figures
	x.Took, x.Proved, x.Grants, x.Waits, x.Losses, x.Caught, x.Faults = time.Since(start), v.Proved, f.Grants, f.Waits, f.Losses, f.Caught, f.Faults
	x.Why = strings.Join(v.TooLittle, "; ")
	if len(v.Violations) > 0 {
		x.Found, x.Why = v.Violations[0].Check, v.Violations[0].Text
	}
	if x.Broken == "" && !x.Proved {
		var text strings.Builder
		report.Print(&text)
		t.Errorf("%s, seed %d:\n%s", x.Store, x.Seed, text.String())
	}
	t.Logf("%s %s seed %d: proved %v, found by %d, %d grants, %v", x.Store, x.Broken, x.Seed, x.Proved, x.Found, x.Grants, x.Took)
	r.add(t, x)
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
func (r *records) write(t *testing.T, path string, stores []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the figures", path)
	}
	var b strings.Builder
	b.WriteString("\n| store | runs | proved | grants | waited for | losses told | unsafe uses caught | faults |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range stores {
		var sum record
		runs, proved, faults := 0, 0, 0
		for _, x := range r.all {
			if x.Store != s || x.Broken != "" {
				continue
			}
			runs, proved = runs+1, proved+count(x.Proved)
			sum.Grants, sum.Waits, sum.Losses, sum.Caught = sum.Grants+x.Grants, sum.Waits+x.Waits, sum.Losses+x.Losses, sum.Caught+x.Caught
			for _, n := range x.Faults {
				faults += n
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", s, runs, proved, sum.Grants, sum.Waits, sum.Losses, sum.Caught, faults)
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
