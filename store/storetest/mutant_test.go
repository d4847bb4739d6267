package storetest_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The suite is worth what it catches. Each mutant is a copy of packages queue
// and memstore with one thing wrong; they are in one build, and each is run
// against the suite by itself. The right copy passes all of it; each mutant
// fails a subtest at least, and no two are caught by one and the same subtest
// alone.
func TestTheSuiteCatchesEachMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs some hundred and fifty stores: most of a minute")
	}
	set := buildMutants(t)

	begin := time.Now()
	right := runMutant(t, set, len(mutants))
	if len(right.failed) > 0 || right.comparison != "" || right.passed == 0 {
		t.Fatalf("the right store fails:\n%s", right.output)
	}
	results := make([]result, len(mutants))
	var running sync.WaitGroup
	slot := make(chan struct{}, 24) // they mostly wait
	for i := range mutants {
		slot <- struct{}{}
		running.Go(func() {
			defer func() { <-slot }()
			results[i] = runMutant(t, set, i)
		})
	}
	running.Wait()

	table := &strings.Builder{}
	alone := map[string]string{}
	for i, m := range mutants {
		r := results[i]
		some := strings.Join(r.failed[:min(3, len(r.failed))], " ")
		fmt.Fprintf(table, "%-50s comparison %-22s %3d subtests: %s\n", m.name, cmp.Or(r.comparison, "agrees"), len(r.failed), some)
		switch len(r.failed) {
		case 0:
			t.Errorf("mutant %s passes the suite", m.name)
		case 1:
			if other := alone[r.failed[0]]; other != "" {
				t.Errorf("mutants %s and %s are caught by %s alone", other, m.name, r.failed[0])
			}
			alone[r.failed[0]] = m.name
		}
	}
	t.Logf("%d subtests, %d mutants, in %v:\n%s", right.passed, len(mutants), time.Since(begin).Round(time.Second), table)
}

// copies is where the copies of the packages are that the mutants are of: the
// suite itself uses package queue, too.
const copies = "store/storetest/mutants/"

// buildMutants builds one test binary that has them all. Of the one behind the
// last nothing is wrong.
func buildMutants(t *testing.T) *mutant.Set {
	t.Helper()
	begin := time.Now()
	over := mutant.New(t)
	for _, source := range []string{"store/queue", "memstore"} {
		files, err := filepath.Glob(filepath.Join(moduleRoot(t), source, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources in %s: %v", source, err)
		}
		for _, file := range files {
			if name := source + "/" + filepath.Base(file); !strings.HasSuffix(file, "_test.go") {
				over.Add(copies+name, strings.ReplaceAll(over.Text(name), `/holdfast/store/queue"`, "/holdfast/"+copies+`store/queue"`))
			}
		}
	}
	over.Add(copies+"memstore/newat.go", newAt)
	over.Add(copies+"run/mutant_test.go", mutantTest)
	over.Add(copies+"run/doc.go", "package run\n")

	var all []mutant.Broken
	for _, m := range mutants {
		b := mutant.Broken{Name: m.name}
		for _, e := range m.edits {
			b.Edits = append(b.Edits, mutant.Edit{File: copies + e.File, Old: e.Old, New: e.New})
		}
		all = append(all, b)
	}
	set := over.Mutants(copies+"run", append(all, mutant.Broken{Name: "none"}))
	t.Logf("built in %v", time.Since(begin).Round(time.Second))
	return set
}

const newAt = `package memstore

import (
	rule "github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/` + copies + `store/queue"
)

// NewAt is newAt, with the time of the package that is not mutated.
func NewAt(now func() rule.Time) *Store {
	return newAt(func() queue.Time { return queue.Time(now()) })
}
`

const mutantTest = `package run

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
	"github.com/holdfast-go/holdfast/` + copies + `memstore"
)

func TestMutant(t *testing.T) {
	s := memstore.New()
	storetest.Run(t, func(*testing.T) store.Store { return s })
	t.Run("comparison", func(t *testing.T) {
		storetest.Differential(t, storetest.Clocked{TwoClocks: true, OneFloor: true, Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			s := memstore.NewAt(clock)
			return func() store.Store { return s }
		}})
	})
}
`

// A result is what the suite said of a mutant.
type result struct {
	passed     int
	failed     []string // subtests
	comparison string   // how the comparison with the rule failed, or empty
	output     string
}

var (
	verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestMutant/promise/(\S+)`)
	differs = regexp.MustCompile(`--- FAIL: TestMutant/comparison`)
	step    = regexp.MustCompile(`step (\d+) at`)
)

func runMutant(t *testing.T, set *mutant.Set, i int) (r result) {
	patience, name := "30s", "none"
	if i < len(mutants) {
		patience, name = "3s", mutants[i].name
	}
	cmd := set.Command(t, i, "-test.v", "-test.parallel=200", "-test.timeout=2m")
	cmd.Env = append(cmd.Env, "HOLDFAST_TEST_PATIENCE="+patience)
	out, err := cmd.CombinedOutput()
	r.output = string(out)
	for _, v := range verdict.FindAllStringSubmatch(r.output, -1) {
		if v[1] == "PASS" {
			r.passed++
		} else {
			r.failed = append(r.failed, v[2])
		}
	}
	slices.Sort(r.failed)
	if differs.MatchString(r.output) {
		r.comparison = "below a floor"
		if steps := step.FindAllStringSubmatch(r.output, -1); len(steps) > 0 {
			r.comparison = "differs at step " + steps[len(steps)-1][1]
		}
	}
	if err != nil && len(r.failed) == 0 && r.comparison == "" || r.passed+len(r.failed) == 0 {
		t.Errorf("mutant %s did not run to its end: %v\n%s", name, err, r.output)
	}
	return r
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
