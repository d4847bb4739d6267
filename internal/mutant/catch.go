package mutant

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Broken is the module with something wrong, and the test that says so.
type Broken struct {
	Name  string
	Pkg   string // where the test is, by its path in the module
	Test  string // with its subtests, if it is one of them: Test/sub
	Edits []Edit
	// Hangs says that its test ends by its time alone, as no clock of a test
	// can bound it: it is given less.
	Hangs bool
}

// Catch fails the test for each Broken that its own test does not catch. env is
// added to the environment of those.
func Catch(t *testing.T, all []Broken, env ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds the tests with all mutants and runs them for each: minutes")
	}
	begin := time.Now()
	packages := map[string][]Broken{}
	for _, b := range all {
		packages[b.Pkg] = append(packages[b.Pkg], b)
	}
	own := 0
	for pkg, some := range packages {
		set := Build(t, pkg, some)
		own += len(set.own)
		var running sync.WaitGroup
		slot := make(chan struct{}, 8) // they mostly wait
		for i := range some {
			slot <- struct{}{}
			running.Go(func() {
				defer func() { <-slot }()
				t.Run(some[i].Name, func(t *testing.T) { set.catch(t, i, env) })
			})
		}
		running.Wait()
	}
	t.Logf("%d mutants, %d of them with a build of their own, in %v", len(all), own, time.Since(begin).Round(time.Second))
}

func (s *Set) catch(t *testing.T, i int, env []string) {
	b := s.all[i]
	timeout := "-test.timeout=60s"
	if b.Hangs {
		timeout = "-test.timeout=10s"
	}
	cmd := s.Command(t, i, "-test.run=^"+b.Test+"$", timeout, "-test.failfast")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	test, _, _ := strings.Cut(b.Test, "/")
	switch {
	case err == nil:
		t.Errorf("%s passes", b.Test)
	case !bytes.Contains(out, []byte("--- FAIL: "+test)) && !bytes.Contains(out, []byte("panic: ")):
		t.Errorf("%s: %v\n%s", b.Test, err, out)
	}
}

// A Set is the test binary of a package with mutants in it, one of which is
// alive at a time; and one each for those that cannot be in it.
type Set struct {
	all []Broken
	bin string
	own map[int]func(testing.TB) (bin string)
}

// Build builds the test binary of a package with all mutants in it that change
// no more than what is in functions.
func Build(t testing.TB, pkg string, all []Broken) *Set {
	t.Helper()
	return New(t).Mutants(pkg, all)
}

// Mutants is what Build is, of a package that the Overlay may be a part of.
func (o *Overlay) Mutants(pkg string, all []Broken) *Set {
	t := o.t
	t.Helper()
	set := &Set{all: all, own: map[int]func(testing.TB) string{}}
	many := &schemata{module: o, files: map[string]*switched{}}
	apart := map[int]bool{} // those that are not in it
	for i := range all {
		if !many.add(i, &all[i]) {
			apart[i] = true
		}
	}
	for len(apart) < len(all) {
		over := o.copy(t)
		many.lay(over, apart)
		bin, out, err := over.build(pkg)
		if err == nil {
			set.bin = bin
			break
		}
		// By itself it is told what the compiler has against it.
		wrong := complaints(out)
		for i := range wrong {
			apart[i] = true
		}
		if len(wrong) == 0 {
			t.Fatalf("go test -c, with all mutants of %s: %v\n%s", pkg, err, out)
		}
	}
	for i := range apart {
		var once sync.Once
		var bin string
		set.own[i] = func(t testing.TB) string {
			once.Do(func() {
				over := o.copy(t)
				over.Edit(all[i].Edits...)
				bin = over.Build(pkg)
			})
			return bin
		}
	}
	return set
}

// Command runs the test binary with the mutant alive. It fails the test if that
// needs a binary of its own and cannot be built.
func (s *Set) Command(t testing.TB, i int, args ...string) *exec.Cmd {
	t.Helper()
	bin := s.bin
	if own := s.own[i]; own != nil {
		bin = own(t)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), alive(i))
	cmd.WaitDelay = 10 * time.Second // what it leaves behind may hold on to its output
	return cmd
}
