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
}

// Catch fails the test for each Broken that its own test does not catch. env is
// added to the environment of those.
func Catch(t *testing.T, all []Broken, env ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds the tests once for each mutant: minutes")
	}
	begin := time.Now()
	var running sync.WaitGroup
	slot := make(chan struct{}, 2)
	for _, b := range all {
		slot <- struct{}{}
		running.Go(func() {
			defer func() { <-slot }()
			t.Run(b.Name, func(t *testing.T) { b.catch(t, env) })
		})
	}
	running.Wait()
	t.Logf("%d mutants in %v", len(all), time.Since(begin).Round(time.Second))
}

func (b *Broken) catch(t *testing.T, env []string) {
	over := New(t)
	over.Edit(b.Edits...)
	cmd := exec.Command(over.Build(b.Pkg), "-test.run=^"+b.Test+"$", "-test.timeout=60s", "-test.failfast")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	test, _, _ := strings.Cut(b.Test, "/")
	switch {
	case err == nil:
		t.Errorf("%s passes", b.Test)
	case !bytes.Contains(out, []byte("--- FAIL: "+test)) && !bytes.Contains(out, []byte("panic: ")):
		t.Errorf("%s: %v\n%s", b.Test, err, out)
	}
}
