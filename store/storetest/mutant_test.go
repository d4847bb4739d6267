package storetest_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
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
// and memstore with one thing wrong, laid over this module in one build, and
// run against the suite by itself. The right copy passes all of it; each mutant
// fails a subtest at least, and no two are caught by one and the same subtest
// alone.
func TestTheSuiteCatchesEachMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs some ninety stores: a minute")
	}
	root := moduleRoot(t)
	all := append([]broken{{name: "none"}}, mutants...)
	bin := buildMutants(t, root, all)

	results := make([]result, len(all))
	begin := time.Now()
	var running sync.WaitGroup
	slot := make(chan struct{}, 6) // they mostly wait
	for i, m := range all {
		running.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			results[i] = runMutant(t, bin, i, m.name)
		})
	}
	running.Wait()

	right := results[0]
	if len(right.failed) > 0 || right.comparison != "" || right.passed == 0 {
		t.Fatalf("the right store fails:\n%s", right.output)
	}
	table := &strings.Builder{}
	alone := map[string]string{}
	for i, m := range all[1:] {
		r := results[i+1]
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

// buildMutants builds one test binary that has them all.
func buildMutants(t *testing.T, root string, all []broken) (bin string) {
	t.Helper()
	const base = "store/storetest/mutants"
	over := mutant.New(t)
	var imports, cases strings.Builder
	for i, m := range all {
		pkg := fmt.Sprintf("m%d", i)
		used := 0
		var edits []mutant.Edit
		for _, e := range m.edits {
			edits = append(edits, mutant.Edit(e))
		}
		for _, source := range []string{"store/queue", "memstore"} {
			files, err := filepath.Glob(filepath.Join(root, source, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no sources in %s: %v", source, err)
			}
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				text, n := over.Text(source+"/"+filepath.Base(file), edits)
				used += n
				text = strings.ReplaceAll(text, `/holdfast/store/queue"`, "/holdfast/"+base+"/"+pkg+`/queue"`)
				over.Add(filepath.Join(base, pkg, filepath.Base(source), filepath.Base(file)), text)
			}
		}
		if used != len(m.edits) {
			t.Fatalf("mutant %s: %d of %d edits found their file", m.name, used, len(m.edits))
		}
		over.Add(filepath.Join(base, pkg, "memstore", "newat.go"), fmt.Sprintf(newAt, base, pkg))
		fmt.Fprintf(&imports, "%s %q\n", pkg, "github.com/holdfast-go/holdfast/"+base+"/"+pkg+"/memstore")
		fmt.Fprintf(&cases, mutantCase, pkg)
	}
	over.Add(filepath.Join(base, "run", "mutant_test.go"), fmt.Sprintf(mutantTest, imports.String(), cases.String()))
	over.Add(filepath.Join(base, "run", "doc.go"), "package run\n")

	begin := time.Now()
	bin = over.Build(base + "/run")
	t.Logf("built in %v", time.Since(begin).Round(time.Second))
	return bin
}

const newAt = `package memstore

import (
	rule "github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/%s/%s/queue"
)

// NewAt is newAt, with the time of the package that is not mutated.
func NewAt(now func() rule.Time) *Store {
	return newAt(func() queue.Time { return queue.Time(now()) })
}
`

const mutantCase = `
	t.Run(%[1]q, func(t *testing.T) {
		s := %[1]s.New()
		storetest.Run(t, func(*testing.T) store.Store { return s })
		t.Run("comparison", func(t *testing.T) {
			storetest.Differential(t, storetest.Clocked{TwoClocks: true, OneFloor: true, Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
				s := %[1]s.NewAt(clock)
				return func() store.Store { return s }
			}})
		})
	})
`

const mutantTest = `package run

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"

%s)

func TestMutant(t *testing.T) {
%s}
`

// A result is what the suite said of a mutant.
type result struct {
	passed     int
	failed     []string // subtests
	comparison string   // how the comparison with the rule failed, or empty
	output     string
}

var (
	verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestMutant/m\d+/promise/(\S+)`)
	differs = regexp.MustCompile(`--- FAIL: TestMutant/m\d+/comparison`)
	step    = regexp.MustCompile(`step (\d+) at`)
)

func runMutant(t *testing.T, bin string, i int, name string) (r result) {
	patience := "HOLDFAST_TEST_PATIENCE=3s"
	if i == 0 {
		patience = "HOLDFAST_TEST_PATIENCE=30s"
	}
	cmd := exec.Command(bin, "-test.v", "-test.parallel=100", "-test.timeout=60s", "-test.run", fmt.Sprintf("^TestMutant$/^m%d$", i))
	cmd.Env = append(os.Environ(), patience)
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
