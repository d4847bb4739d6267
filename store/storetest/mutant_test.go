package storetest_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The suite is as good as the defects that it catches. Each mutant is a copy of
// packages queue and memstore with one defect. All are in one build, and each is run
// against the suite by itself. The correct copy passes the whole suite. Each mutant
// fails at least one subtest, and no two are caught only by the same single subtest.
func TestTheSuiteCatchesEachMutant(t *testing.T) {
	over, all := planted(t)
	over.AtNight(all)
	begin := time.Now()
	set := over.Mutants(copies+"run", all)
	t.Logf("built in %v", time.Since(begin).Round(time.Second))

	begin = time.Now()
	results, right := runMutants(t, set, patience)
	for again := 2 * patience; !right.passes() && again <= 4*patience; again *= 2 {
		t.Logf("the correct store fails with a short patience, so no mutant is judged; all run again with %v: %s", again, right.run.End())
		results, right = runMutants(t, set, again)
	}
	if !right.passes() {
		t.Fatalf("the correct store fails, so no mutant is judged: %s\n%s", right.run.End(), right.run.Output)
	}
	for i, r := range results {
		if !r.ended() {
			t.Errorf("mutant %s did not run to its end: %s\n%s", mutants[i].name, r.run.End(), r.run.Output)
		}
	}

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

// copies is the path of the copied packages, which the mutants change: the suite
// itself uses package queue, too.
const copies = "store/storetest/mutants/"

// planted is all mutants and their code: the copies, and a test that runs the
// suite on them.
func planted(t *testing.T) (over *mutant.Overlay, all []mutant.Broken) {
	t.Helper()
	over = mutant.New(t)
	for _, source := range []string{"store/queue", "memstore"} {
		files, err := filepath.Glob(filepath.Join(mutant.Root(t), source, "*.go"))
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

	for _, m := range mutants {
		b := mutant.Broken{Name: m.name, Pkg: "store/storetest", Test: "TestMutant"}
		for _, e := range m.edits {
			e.Under = copies
			b.Edits = append(b.Edits, e)
		}
		all = append(all, b)
	}
	return over, all
}

const newAt = `package memstore

import (
	"sync"

	rule "github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/` + copies + `store/queue"
)

// NewAt is newAt, with the time type of the package that is not mutated.
func NewAt(now func() rule.Time) *Store {
	return newAt(func() queue.Time { return queue.Time(now()) })
}

var came = struct {
	sync.Mutex
	of map[string]int
}{of: map[string]int{}}

// comes counts the claims that come to a name.
func comes(name string) int {
	came.Lock()
	defer came.Unlock()
	came.of[name]++
	return came.of[name]
}
`

const mutantTest = `package run

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
	"github.com/holdfast-go/holdfast/` + copies + `memstore"
)

func TestMutant(t *testing.T) {
	var stores sync.Map // of the subtests, each in a bubble
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := stores.LoadOrStore(t, memstore.New())
		return s.(*memstore.Store)
	}, synctest.Test)
	t.Run("comparison", func(t *testing.T) {
		storetest.Differential(t, storetest.Clocked{TwoClocks: true, OneFloor: true, Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			s := memstore.NewAt(clock)
			return func() store.Store { return s }
		}})
	})
}
`

// A result is the outcome of the suite for a mutant.
type result struct {
	run        *mutant.Run
	passed     int
	failed     []string // subtests
	comparison string   // how the comparison with the rule failed, or empty
}

var step = regexp.MustCompile(`step (\d+) at`)

// patience is how long a store may keep a test waiting, the correct one and each mutant
// alike. It is less than a third of a position's time, so that the safety poll does not hide a
// mutant that notifies nobody.
const patience = 3 * time.Second

// runMutants runs all mutants, and the correct store beside them, with the same patience.
func runMutants(t *testing.T, set *mutant.Set, patience time.Duration) (results []result, right result) {
	results = make([]result, len(mutants))
	var running sync.WaitGroup
	slot := make(chan struct{}, 24) // they mostly wait
	for i := mutant.None; i < len(mutants); i++ {
		slot <- struct{}{}
		running.Go(func() {
			defer func() { <-slot }()
			if r := runMutant(t, set, i, patience); i == mutant.None {
				right = r
			} else {
				results[i] = r
			}
		})
	}
	running.Wait()
	return results, right
}

// passes reports whether the suite found nothing wrong.
func (r *result) passes() bool { return r.run.Err == nil && len(r.run.Failed) == 0 && r.passed > 0 }

// ended reports whether the suite ran to its end or to a failure.
func (r *result) ended() bool {
	return !r.run.TimedOut && (r.run.Err == nil || len(r.failed) > 0 || r.comparison != "") && r.passed+len(r.failed) > 0
}

func runMutant(t *testing.T, set *mutant.Set, i int, patience time.Duration) (r result) {
	const promises = "TestMutant/promise/"
	r.run = set.Run(t, i, "TestMutant", 5*time.Minute, []string{"-test.parallel=200"}, "HOLDFAST_TEST_PATIENCE="+patience.String())
	for _, name := range r.run.Passed {
		r.passed += strings.Count(name, promises)
	}
	for _, name := range r.run.Failed {
		if promise, ok := strings.CutPrefix(name, promises); ok {
			r.failed = append(r.failed, promise)
		}
	}
	slices.Sort(r.failed)
	if slices.Contains(r.run.Failed, "TestMutant/comparison") {
		r.comparison = "below a floor"
		if steps := step.FindAllSubmatch(r.run.Output, -1); len(steps) > 0 {
			r.comparison = "differs at step " + string(steps[len(steps)-1][1])
		}
	}
	return r
}
