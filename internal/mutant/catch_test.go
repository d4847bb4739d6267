package mutant

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// judged is a module with a function, and tests that end in every possible way if the function is wrong.
var judged = map[string]string{
	"go.mod": "module sample\n\ngo 1.26\n",
	"sample.go": `package sample

// Half is not rounded up.
func Half(n int) int { return n / 2 } //mutant:half
`,
	"sample_test.go": `package sample

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func wrong() bool { return Half(4) != 2 }

func TestDir(t *testing.T) {
	t.TempDir()
	if wrong() {
		t.Error("wrong")
	}
}

func TestAlwaysFails(t *testing.T) { t.Error("always") }
func TestAlwaysSkips(t *testing.T) { t.Skip("no redis-server: run \"make servers\"") }
func TestSkips(t *testing.T) {
	if wrong() {
		t.Skip("the server has gone")
	}
}
func TestNoServer(t *testing.T) {
	if wrong() {
		t.Fatal("redis-server ended at its start: no port")
	}
}
func TestHangs(t *testing.T) {
	if wrong() {
		select {}
	}
}
func TestHangsAlways(t *testing.T) { select {} }
func TestExits(t *testing.T) {
	if wrong() {
		os.Exit(1)
	}
}
func TestPrints(t *testing.T) {
	if wrong() {
		fmt.Println("--- FAIL: TestPrints (0.00s)\npanic: so")
		os.Exit(1)
	}
}
func TestPanics(t *testing.T) {
	if wrong() {
		panic("so")
	}
}
func TestPanicsBeside(t *testing.T) {
	if wrong() {
		go func() { panic("so") }()
		select {}
	}
}
func TestPanicsElsewhere(t *testing.T) {
	if wrong() {
		time.AfterFunc(0, nil)
		select {}
	}
}
func TestUnmet(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_MUTANT") != "-1" {
		t.Error("something else")
	}
}
func TestName(t *testing.T) { t.Run("sub", func(t *testing.T) {}) }
func TestNamesake(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if wrong() {
			t.Error("wrong")
		}
	})
}
`,
}

// A test that ends in another way than by failing catches nothing. Neither does a test that does not pass without a
// mutant.
func TestOnlyATestThatPassesWithoutAMutantCatches(t *testing.T) {
	const helper = "HOLDFAST_TEST_CONTROL"
	same := at("half", Return("(WAS)"))
	other := at("half", Return("n/2 + 1"))
	noDir := "TMPDIR=" + filepath.Join(t.TempDir(), "none")
	unmet := func(r *Run) string {
		if !r.Met {
			return "never met it"
		}
		return ""
	}
	type c struct {
		Broken
		env string
		why string // "" if it is caught
	}
	all := []c{
		{Broken{Name: "an edit that changes nothing, and a bad TMPDIR", Test: "TestDir", Edits: same}, noDir, "TestDir catches nothing: with no mutant alive it fails"},
		{Broken{Name: "an edit that changes nothing", Test: "TestDir", Edits: same}, "", "TestDir passes"},
		{Broken{Name: "caught", Test: "TestDir", Edits: other}, "", ""},
		{Broken{Name: "the test always fails", Test: "TestAlwaysFails", Edits: other}, "", "with no mutant alive it fails"},
		{Broken{Name: "the test is always skipped", Test: "TestAlwaysSkips", Edits: other}, "", "with no mutant alive it is skipped"},
		{Broken{Name: "there is no such test", Test: "TestNone", Edits: other}, "", "with no mutant alive it does not run: there is no such test"},
		{Broken{Name: "the test is skipped", Test: "TestSkips", Edits: other}, "", "TestSkips was skipped"},
		{Broken{Name: "a server is missing", Test: "TestNoServer", Edits: other}, "", "TestNoServer had no server"},
		{Broken{Name: "it hangs", Test: "TestHangs", Edits: other}, "", "TestHangs ran out of time"},
		{Broken{Name: "it always hangs", Test: "TestHangsAlways", Edits: other}, "", "with no mutant alive it ran out of time"},
		{Broken{Name: "it exits", Test: "TestExits", Edits: other}, "", "TestExits did not fail: the process ended with exit status 1"},
		{Broken{Name: "it prints what a failure prints", Test: "TestPrints", Edits: other}, "", "TestPrints did not fail"},
		{Broken{Name: "it panics", Test: "TestPanics", Edits: other}, "", ""},
		{Broken{Name: "a goroutine of its package panics", Test: "TestPanicsBeside", Edits: other}, "", ""},
		{Broken{Name: "a goroutine of another package panics", Test: "TestPanicsElsewhere", Edits: other}, "", "TestPanicsElsewhere did not fail"},
		{Broken{Name: "it is met", Test: "TestDir", Edits: other, Says: unmet}, "", ""},
		{Broken{Name: "it is not met", Test: "TestUnmet", Edits: other, Says: unmet}, "", "TestUnmet never met it"},
		{Broken{Name: "another test of a longer name fails", Test: "TestName/sub", Edits: other}, "", "TestName/sub passes"},
	}
	if name := os.Getenv(helper); name != "" {
		inModule(t, judged)
		limit = 15 * time.Second
		for _, c := range all {
			if c.Name == name {
				Catch(t, []Broken{c.Broken}, strings.Fields(c.env)...)
			}
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self, "-test.run=^TestOnlyATestThatPassesWithoutAMutantCatches$")
			cmd.Env = append(os.Environ(), helper+"="+c.Name, testserver.NightlyEnv+"=1")
			out, err := cmd.CombinedOutput()
			if caught := err == nil; caught != (c.why == "") || !strings.Contains(string(out), c.why) {
				t.Errorf("caught: %v, want %q:\n%s", caught, c.why, out)
			}
		})
	}
}

// Where mutants are not run, the test still reports at once one that cannot be planted.
func TestEachMutantCanBePlantedEvenIfNoneIsRun(t *testing.T) {
	inModule(t, judged)
	o := New(t)
	for _, c := range []struct {
		broken Broken
		why    string // "": it can be planted
	}{
		{Broken{Test: "TestAlwaysFails", Edits: at("half", Return("n/2 + 1"))}, ""},
		{Broken{Test: "TestName/sub", Edits: at("half", Return("n/2 + 1"))}, ""},
		{Broken{Test: "TestDir", Edits: at("third", Return("n/2 + 1"))}, "no file has the mark mutant:third"},
		{Broken{Test: "TestDir", Edits: at("half", Cond("true"))}, "there is no condition at the mark"},
		{Broken{Test: "TestDir", Edits: at("half", Return("n/"))}, "with the mutant in it"},
		{Broken{Test: "TestNo", Edits: at("half", Return("n/2 + 1"))}, "there is no TestNo in the package"},
	} {
		if err := o.plants(c.broken); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: got %v, want %q", c.broken, err, c.why)
		}
	}
	t.Setenv(testserver.NightlyEnv, "")
	t.Run("skipped", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("the test is not skipped")
			}
		}()
		Catch(t, []Broken{{Test: "TestAlwaysFails", Edits: at("half", Return("n/2 + 1"))}})
	})
}

// A test without a mutant never fails because of a patience that is short for mutants.
func TestAShortPatienceIsForMutantsAlone(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "HOLDFAST_TEST_PATIENCE=5s", "B=2"}
	for _, c := range []struct {
		took time.Duration
		want []string
	}{
		{0, []string{"A=1", "B=2"}},
		{time.Second, env},
		{10 * time.Second, []string{"A=1", "HOLDFAST_TEST_PATIENCE=20s", "B=2"}},
	} {
		if have := patient(env, c.took); !slices.Equal(have, c.want) {
			t.Errorf("took %v: got %q, want %q", c.took, have, c.want)
		}
	}
}
