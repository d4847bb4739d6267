package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const selfEnv = "HOLDFAST_TEST_RUNTESTS"

// The tests start the command as people do: it is this program, too.
func TestMain(m *testing.M) {
	if os.Getenv(selfEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// module writes a module of one package and returns its directory. Without code
// it has no package.
func module(t *testing.T, name, code, test string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	files := map[string]string{"go.mod": "module example.org/" + name + "\n\ngo 1.26\n"}
	if code != "" || test != "" {
		imports := "import \"testing\"\n"
		if strings.Contains(test, "os.") {
			imports += "import \"os\"\n"
		}
		files["p/p.go"] = "package p\n" + code + "\n"
		files["p/p_test.go"] = "package p\n" + imports + test + "\n"
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runtests runs the command with the arguments behind those that it needs here.
func runtests(t *testing.T, args ...string) (out string, exit int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"-root", t.TempDir(), "-tools", "../tools", "-json", t.TempDir()}, args...)...)
	cmd.Env = append(os.Environ(), selfEnv+"=1")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

const good = "\nfunc TestGood(t *testing.T) {}\n"

// Whatever goes wrong in a real package makes the exit status 1, and is named.
func TestAnyFailureIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		code, test string
		flags      string
		exit       int
		last       string // line
		says       []string
	}{
		{"all pass", "", good, "-strict --", 0, "1 passed, 0 failed, 0 skipped", []string{"DONE 1 tests"}},
		{"a test fails", "", good + `func TestBad(t *testing.T) { t.Error("3 is not 4") }`, "--", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"3 is not 4", "\nfailed: example.org/x/p.TestBad\n\tp_test.go:5: 3 is not 4\n"}},
		{"a test fails with many lines", "", `func TestBad(t *testing.T) { for i := range 20 { t.Error("bad", i) } }`, "--", 1, "0 passed, 2 failed, 0 skipped",
			[]string{"\tp_test.go:3: bad 3\n\t(12 lines more)\n\tp_test.go:3: bad 16\n", "\tp_test.go:3: bad 19\nfailed: no test passed"}},
		{"a subtest fails", "", good + `func TestBad(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Fail() }) }`, "--", 1, "1 passed, 2 failed, 0 skipped",
			[]string{"\nfailed: example.org/x/p.TestBad/sub\n"}},
		{"a test panics", "", good + `func TestBad(t *testing.T) { panic("so") }`, "--", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"panic: so", "failed: example.org/x/p.TestBad"}},
		{"a goroutine panics", "", good + `func TestBad(t *testing.T) { go panic("so"); select {} }`, "--", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"panic: so", "failed: example.org/x/p", "\tpanic: so\n"}},
		{"the package does not build", "var y int = nil", good, "--", 1, "0 passed, 2 failed, 0 skipped",
			[]string{"cannot use nil as int value", "failed: example.org/x/p\n", "failed: no test passed"}},
		{"a data race", "", good + `func TestBad(t *testing.T) { n, c := 0, make(chan int); go func() { n++; close(c) }(); n++; <-c }`, "-- -race", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"DATA RACE", "failed: example.org/x/p.TestBad\n"}},
		{"a test does not end", "", good + `func TestBad(t *testing.T) { select {} }`, "-- -timeout=10s", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"panic: test timed out after 10s", "failed: example.org/x/p"}},
		{"a test exits", "", good + `func TestBad(t *testing.T) { os.Exit(3) }`, "--", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"failed: example.org/x/p"}},
		{"the tests pass, and then it fails", "", good + `func TestMain(m *testing.M) { m.Run(); println("leaked"); os.Exit(1) }`, "--", 1, "1 passed, 1 failed, 0 skipped",
			[]string{"leaked", "failed: example.org/x/p\n"}},
		{"nothing is there", "", "", "--", 1, "0 passed, 2 failed, 0 skipped", []string{"matched no packages", "failed: no test passed"}},
		{"no test is asked for", "", good, "-- -run TestNone", 1, "0 passed, 1 failed, 0 skipped", []string{"failed: no test passed"}},
		{"go test does not start", "", good, "-- -count=x", 1, "0 passed, 2 failed, 0 skipped", []string{"invalid value", "no test failed, but gotestsum: exit status"}},
		{"a skip for want of a server, strict", "", good + `func TestServer(t *testing.T) { t.Skip("no redis-server: run make servers") }`, "-strict --", 1, "1 passed, 1 failed, 1 skipped",
			[]string{"example.org/x/p.TestServer\n", "run make servers"}},
		{"a skip for want of a server", "", good + `func TestServer(t *testing.T) { t.Skip("no redis-server: run make servers") }`, "--", 0, "1 passed, 0 failed, 1 skipped",
			[]string{"example.org/x/p.TestServer\n"}},
		{"a skip that is on the list, strict", "", good + `func TestDelay(t *testing.T) { t.Skip("the store lacks \"lock delay\": sessions end") }`, "-strict --", 0, "1 passed, 0 failed, 1 skipped",
			[]string{"skipped, a promise that the store says it does not make:\n\texample.org/x/p.TestDelay\n"}},
		{"a skip whose whole reason is on the list, strict", "", good + `func TestEachMutant(t *testing.T) { t.Skip("the mutants are tried by make mutants and make nightly") }`, "-strict --", 0, "1 passed, 0 failed, 1 skipped",
			[]string{"skipped, mutants, which make nightly tries:\n"}},
		{"a skip whose reason only ends like one on the list, strict", "", good + `func TestEachMutant(t *testing.T) { t.Skip("no server, and the mutants are tried by make mutants and make nightly") }`, "-strict --", 1, "1 passed, 1 failed, 1 skipped", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := module(t, "x", c.code, c.test)
			flags := strings.Fields(c.flags)
			out, exit := runtests(t, append([]string{"-m", dir}, flags...)...)
			if exit != c.exit {
				t.Errorf("got exit status %d, want %d", exit, c.exit)
			}
			if !strings.HasSuffix(out, "\n"+c.last+"\n") {
				t.Errorf("the last line is not %q", c.last)
			}
			for _, says := range c.says {
				if !strings.Contains(out, says) {
					t.Errorf("the output does not say %q", says)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// A test that fails the first time only fails: nothing is run again.
func TestATestThatFailsOnceFails(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	dir := module(t, "redisstore", "", good+`func TestOnce(t *testing.T) {
	f, err := os.OpenFile(`+"`"+mark+"`"+`, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("x")
	if info, _ := f.Stat(); info.Size() == 1 {
		t.Error("the first time")
	}
}`)
	out, exit := runtests(t, "-strict", "-m", dir, "--", "-count=1")
	if ran, err := os.ReadFile(mark); exit != 1 || string(ran) != "x" || err != nil || !strings.Contains(out, "failed: example.org/redisstore/p.TestOnce\n") {
		t.Errorf("got exit status %d, and it ran %d times (%v):\n%s", exit, len(ran), err, out)
	}
}

// One module that fails is enough, and the sums are of all.
func TestModulesAreSummed(t *testing.T) {
	t.Parallel()
	a, b := module(t, "a", "", good), module(t, "b", "", good+`func TestBad(t *testing.T) { t.Fail() }`)
	for _, c := range []struct {
		first, second string
		exit          int
		last          string
	}{
		{a, b, 1, "2 passed, 1 failed, 0 skipped"},
		{b, a, 1, "2 passed, 1 failed, 0 skipped"},
		{a, filepath.Join(a, "none"), 1, "1 passed, 1 failed, 0 skipped"},
	} {
		out, exit := runtests(t, "-m", c.first, "-m", c.second, "--")
		if exit != c.exit || !strings.HasSuffix(out, "\n"+c.last+"\n") {
			t.Errorf("got exit status %d, want %d and %q:\n%s", exit, c.exit, c.last, out)
		}
	}
}

// A workspace is tested as one, and each of its modules and packages is counted. What is left out
// is a failure, by name.
func TestAnOmittedModuleIsAFailure(t *testing.T) {
	t.Parallel()
	a, beside := module(t, "a", "", good), module(t, "beside", "", good)
	root := t.TempDir()
	for _, dir := range []string{"a", "b", "b/c"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(a)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "go.mod"), []byte("module example.org/"+dir+"\n\ngo 1.26\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := module(t, "whole", "", good)
	for name, text := range map[string]string{"top.go": "package whole\n", "top_test.go": "package whole\nimport \"testing\"\n" + good} {
		if err := os.WriteFile(filepath.Join(whole, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		uses string
		args []string
		exit int
		says []string
	}{
		{"./a ./b ./b/c", []string{"-root", root, "-m", beside, "--"}, 0, []string{"4 packages of 4 modules\n4 passed, 0 failed"}},
		{"./a ./b ./b/c", []string{"-root", root, "--"}, 0, []string{"3 packages of 3 modules\n"}},
		{"./a ./b", []string{"-root", root, "--"}, 1, []string{"failed: the module in " + filepath.Join(root, "b", "c") + " is not tested"}},
		{"./a ./b", []string{"-root", root, "-m", filepath.Join(root, "b", "c"), "--"}, 0, []string{"3 packages of 3 modules\n"}},
		{"", []string{"-m", whole, "--"}, 0, []string{"2 packages of 1 modules\n2 passed"}},
		{"", []string{"-m", whole, "--", "-args"}, 1, []string{"failed: example.org/whole/p: it was not tested\n"}}, // go test has no pattern then
		{"", []string{"-root", a, "--"}, 1, []string{"there is no workspace in "}},
	} {
		if c.uses != "" {
			if err := os.WriteFile(filepath.Join(root, "go.work"), []byte("go 1.26\n\nuse (\n"+strings.ReplaceAll(c.uses, " ", "\n")+"\n)\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, exit := runtests(t, c.args...)
		for _, says := range c.says {
			if exit != c.exit || !strings.Contains(out, says) {
				t.Errorf("%s, %q: got exit status %d, want %d and %q:\n%s", c.uses, c.args, exit, c.exit, says, out)
			}
		}
	}
}

// A module is tested with the go.mod that is named for it, and no workspace with it.
func TestAModuleIsTestedWithAnotherGoMod(t *testing.T) {
	t.Parallel()
	dir := module(t, "a", "", good+`func TestLess(t *testing.T) { t.Skip("no server") }`)
	other := filepath.Join(t.TempDir(), "go.mod")
	if err := os.WriteFile(other, []byte("module example.org/other\n\ngo 1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, exit := runtests(t, "-strict", "-root=", "-m", dir+"="+other, "--")
	if exit != 1 || !strings.Contains(out, "example.org/other/p.TestLess\n") || !strings.HasSuffix(out, "\n1 passed, 1 failed, 1 skipped\n") || !strings.Contains(out, "1 packages of 1 modules\n") {
		t.Errorf("got exit status %d:\n%s", exit, out)
	}
}

// What go test wrote before it was killed is no proof of what it would have
// written.
func TestAPackageThatDidNotEndFails(t *testing.T) {
	for name, c := range map[string]struct{ events, failure string }{
		"it began and did not end": {`{"Action":"start","Package":"p"}
{"Action":"pass","Package":"p","Test":"TestA"}
`, "p: it did not end"},
		"a line is cut off": {`{"Action":"start","Package":"p"}
{"Action":"pass","Package":"p","Te`, `unexpected end of JSON input`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := parse(strings.NewReader(c.events))
			if err != nil {
				r.failures = append(r.failures, failure{name: err.Error()})
			}
			var out strings.Builder
			if ok := report(&out, false, r); ok || !strings.Contains(out.String(), "failed: "+c.failure) {
				t.Errorf("got %v, want a failure %q:\n%s", ok, c.failure, &out)
			}
		})
	}
}

// The reason is printed beside a failure that is on the list, which fails.
func TestAKnownFailureIsStillAFailure(t *testing.T) {
	defer func(was []flake) { flakes = was }(flakes)
	flakes = []flake{{"p.TestA", "its server starts slowly"}}
	var out strings.Builder
	if report(&out, false, &result{passed: 1, failures: []failure{{name: "p.TestA/sub"}, {name: "p.TestAB"}}}) {
		t.Error("the report counts no failure")
	}
	want := "failed: p.TestA/sub\n\tknown to flake: its server starts slowly\nfailed: p.TestAB\nservers: "
	if !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, &out)
	}
}

func TestAStoreWithoutAServerIsNamedAtTheEnd(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for uri, want := range map[string]string{"": "mongostore (on a stand-in, internal/mongosim), mssqlstore (what needs no server)", "any://host": "none"} {
		t.Setenv("HOLDFAST_TEST_MONGODB", uri)
		t.Setenv("HOLDFAST_TEST_SQLSERVER", uri)
		var out strings.Builder
		report(&out, false, &result{passed: 1})
		if line := "stores tested without a real server: " + want + "\n"; !strings.Contains(out.String(), line) {
			t.Errorf("with %q: %q is missing in\n%s", uri, line, out.String())
		}
	}
}

// Every store's own backend has a link, and can be frozen: a test that was skipped for want of them has not run.
func TestASubjectWithoutALinkIsNoException(t *testing.T) {
	for _, why := range []string{"the subject has no link", "the subject cannot be frozen", "no server"} {
		for _, in := range []string{"internal/objecttest.TestMemory/backend/promise/a", "s3store.TestBackend/promise/a"} {
			s := skip{name: "github.com/holdfast-go/holdfast/" + in, reason: "recordtest.go:126: " + why}
			if by := s.allowed(); by != "" {
				t.Errorf("%s, %s: %q", s.name, s.reason, by)
			}
		}
	}
}
