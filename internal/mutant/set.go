package mutant

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Set is the test binary of a package with mutants in it, one of which is alive at a time,
// and a separate binary for each mutant that cannot be in it.
type Set struct {
	all    []Broken
	module string            // import path of the module
	marks  map[string]string // where the marks are
	bin    string
	own    map[int]func(testing.TB) (bin string)
}

// Build builds the test binary of a package with all mutants that change only functions and
// values.
func Build(t testing.TB, pkg string, all []Broken) *Set {
	t.Helper()
	return New(t).Mutants(pkg, all)
}

// Mutants is Build for a package that may include files of the Overlay.
func (o *Overlay) Mutants(pkg string, all []Broken) *Set {
	t := o.t
	t.Helper()
	set := &Set{all: all, module: o.modulePath(), own: map[int]func(testing.TB) string{}}
	set.marks, _ = o.marks() // errors are reported where a mark is used
	many := &schemata{module: o, files: map[string]*switched{}}
	apart := map[int]bool{} // mutants that are not in the common binary
	for i := range all {
		if !many.add(i, &all[i]) {
			apart[i] = true
		}
	}
	for set.bin == "" {
		over := o.copy(t)
		many.lay(over, apart)
		bin, out, err := over.build(pkg)
		if err == nil {
			set.bin = bin
			break
		}
		// In its own build, the compiler's error for the mutant is reported.
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

// Command returns a command that runs the test binary with mutant i alive. It fails the test if
// the mutant needs its own binary and that cannot be built.
func (s *Set) Command(t testing.TB, i int, args ...string) *exec.Cmd {
	t.Helper()
	bin := s.bin
	if own := s.own[i]; own != nil {
		bin = own(t)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), AliveEnv+"="+strconv.Itoa(i))
	cmd.WaitDelay = 10 * time.Second // processes left behind may keep its output open
	return cmd
}
