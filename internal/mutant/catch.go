package mutant

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Broken is the module with a fault in it, and the test that must catch it.
type Broken struct {
	Name  string
	Pkg   string // the package of the test, by its path in the module
	Test  string // with its subtest, if it is one: Test/sub
	Edits []Edit
	// Says returns why the failure of the test does not count, or "". If it is nil, any failure
	// counts.
	Says func(r *Run) string
}

// limit is how long a test may run, with or without a mutant. A timeout does not catch the
// mutant: on a busy machine a test with its own servers takes minutes, even without a mutant. A
// test that a mutant can block must limit its wait itself.
var limit = 5 * time.Minute

// failFast stops at the first failure, which is enough.
var failFast = []string{"-test.failfast"}

// patienceEnv limits how long tests wait for something. Most mutants that break such a wait are
// found only when it ends, so tests with many mutants make it short.
const patienceEnv = "HOLDFAST_TEST_PATIENCE="

// Catch fails the test for each Broken that its own test does not catch. env is added to the
// environment of these tests. Each of them is also run once without a mutant: a test that then
// fails, or does not run, catches nothing.
//
// A short HOLDFAST_TEST_PATIENCE in env is used only in the runs with a mutant. It is made
// longer for a test that takes longer without one: so a test does not fail only because the
// machine is busy.
//
// By day Catch is skipped: see [Overlay.AtNight].
func Catch(t *testing.T, all []Broken, env ...string) {
	t.Helper()
	New(t).AtNight(all)
	begin := time.Now()
	packages := map[string][]Broken{}
	for _, b := range all {
		packages[b.Pkg] = append(packages[b.Pkg], b)
	}
	own, controls := 0, 0
	for pkg, some := range packages {
		set := Build(t, pkg, some)
		own += len(set.own)
		controls += set.catchAll(t, 8, env) // they mostly wait
	}
	t.Logf("%d mutants, %d of them with a build of their own, and %d tests without a mutant, in %v", len(all), own, controls, time.Since(begin).Round(time.Second))
}

// catchAll tries all mutants of the set, atOnce at a time, and returns how many tests were run
// without a mutant.
func (s *Set) catchAll(t *testing.T, atOnce int, env []string) (controls int) {
	c := newControls(s, env)
	var running sync.WaitGroup
	slot := make(chan struct{}, atOnce)
	for i := range s.all {
		slot <- struct{}{}
		running.Go(func() {
			defer func() { <-slot }()
			t.Run(s.all[i].Name, func(t *testing.T) { s.catch(t, i, c, env) })
		})
	}
	running.Wait()
	return len(c.of)
}

func (s *Set) catch(t *testing.T, i int, c *controls, env []string) {
	b := s.all[i]
	took, why := c.wrong(t, b)
	if why != "" {
		t.Errorf("%s catches nothing: with no mutant alive %s", b.Test, why)
		return
	}
	run := s.Run(t, i, b.Test, limit, failFast, patient(env, took)...)
	if why := s.missed(run, b); why != "" {
		t.Errorf("%s %s\n%s", b.Test, why, run.Output)
	}
}

// patient returns env with a patience of at least twice the time that the test took without a
// mutant; with the default patience if took is zero.
func patient(env []string, took time.Duration) (with []string) {
	for _, setting := range env {
		if short, ok := strings.CutPrefix(setting, patienceEnv); ok {
			d, err := time.ParseDuration(short)
			if took == 0 || err != nil {
				continue
			}
			setting = patienceEnv + max(d, 2*took).String()
		}
		with = append(with, setting)
	}
	return with
}

// missed returns why the run with the mutant did not catch it, or "".
func (s *Set) missed(run *Run, b Broken) string {
	test, _, _ := strings.Cut(b.Test, "/")
	switch {
	case run.NoServer != "":
		return "had no server, so it caught nothing: " + run.NoServer
	case run.TimedOut:
		return "ran out of time, so it caught nothing"
	case slices.Contains(run.Failed, test):
		if b.Says == nil {
			return ""
		}
		return b.Says(run)
	case run.Unfinished(test) && run.panickedIn(s.packages(b)):
		return ""
	case !run.Began(test):
		return "did not run: " + run.End()
	case slices.Contains(run.Skipped, b.Test), slices.Contains(run.Skipped, test):
		return "was skipped, so it caught nothing"
	case slices.Contains(run.Passed, b.Test):
		return "passes"
	}
	return "did not fail: " + run.End()
}

// packages returns the import paths of the test's package and of the packages that the mutant
// changes. The mutant is not blamed for a panic in another package.
func (s *Set) packages(b Broken) (paths []string) {
	dirs := []string{b.Pkg}
	for _, e := range b.Edits {
		if file := s.marks[e.Mark]; file != "" {
			dirs = append(dirs, path.Dir(file))
		}
	}
	for _, dir := range dirs {
		paths = append(paths, path.Join(s.module, dir))
	}
	return paths
}

// controls are the runs of tests without a mutant, one for each test.
type controls struct {
	set *Set
	env []string

	mu sync.Mutex
	of map[string]*control // by test
}

type control struct {
	once sync.Once
	run  *Run
	told bool // its output was printed
}

func newControls(s *Set, env []string) *controls {
	return &controls{set: s, env: env, of: map[string]*control{}}
}

// wrong returns how long the test of the mutant takes without a mutant, and what is wrong with
// it then, or "". The first call for a test runs it.
func (c *controls) wrong(t testing.TB, b Broken) (took time.Duration, why string) {
	c.mu.Lock()
	one := c.of[b.Test]
	if one == nil {
		one = &control{}
		c.of[b.Test] = one
	}
	c.mu.Unlock()
	one.once.Do(func() { one.run = c.set.Run(t, None, b.Test, limit, failFast, patient(c.env, 0)...) })
	if one.run == nil {
		return 0, "it could not be built"
	}
	switch run := one.run; {
	case run.TimedOut:
		why = "it ran out of time"
	case !run.Began(b.Test):
		why = "it does not run: " + run.End()
	case slices.Contains(run.Skipped, b.Test):
		why = "it is skipped"
	case !slices.Contains(run.Passed, b.Test):
		why = "it fails: " + run.End()
	case run.Err != nil:
		why = "it passes, but " + run.End()
	default:
		return run.Took, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.told {
		return 0, why
	}
	one.told = true
	return 0, why + "\n" + cmp.Or(string(one.run.Output), "it printed nothing")
}
