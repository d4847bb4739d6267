package mutant

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is a module with functions of every kind, and a test of each.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26\n",
	"sample.go": `package sample

import (
	"errors"
	"fmt"
	"sample/other"
)

const limit = 7

var table = map[string]int{"a": limit}

const motto = "first" +
	"last"

const word = "text"

var table2 = map[string]int{
	"b": limit + 1,
}

var order []string

func init() { order = append(order, "init") }

type T struct{ n int }

func (t *T) Add(n int) int { t.n += n; return t.n }

func (T) Name() string { return "T" }

type List[E comparable] struct{ all []E }

func (l *List[E]) Has(e E) bool {
	for _, x := range l.all {
		if x == e {
			return true
		}
	}
	return false
}

func Map[A, B any](all []A, f func(A) B) (out []B) {
	for _, a := range all {
		out = append(out, f(a))
	}
	return out
}

func Sum(_ string, all ...int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return
}

func Second(int, string) int { return 2 }

func Named(fail bool) (n int, err error) {
	defer func() {
		if err != nil {
			n = -1
		}
	}()
	n, err = 1, nil
	if fail {
		n, err := 5, errors.New("failed") // others than those above
		return n, err
	}
	return n, err
}

func Fib(n int) int {
	if n < 2 {
		return n
	}
	return Fib(n-1) + Fib(n-2)
}

func Counter() func() int {
	n := 0
	return func() int { n++; return n }
}

func Panics(f func()) (text string) {
	defer caught(&text)
	f()
	return "no panic"
}

func caught(text *string) {
	if r := recover(); r != nil {
		*text = fmt.Sprint(r)
	}
}

func Both(n int) int { return half(n) + other.Half(n) }

func half(n int) int { return n / 2 }

//go:noinline
func Marked() int { return 3 }

func Set(at *int, _, _ int) { *at = 1 }
`,
	"other/other.go": "package other\n\nfunc Half(n int) int { return n - n/2 }\n",
	"sample_test.go": `package sample

import "testing"

func want[T comparable](t *testing.T, have, want T) {
	t.Helper()
	if have != want {
		t.Errorf("%v, want %v", have, want)
	}
}

func TestConst(t *testing.T) { want(t, limit, 7) }
func TestVar(t *testing.T)   { want(t, table["a"], 7) }
func TestLines(t *testing.T) { want(t, table2["b"], 8) }
func TestText(t *testing.T)  { want(t, word, "text") }
func TestJoined(t *testing.T) { want(t, motto, "firstlast") }
func TestInit(t *testing.T)  { want(t, len(order), 1) }
func TestPointer(t *testing.T) {
	x := &T{1}
	want(t, x.Add(2), 3)
	want(t, x.n, 3)
}
func TestNoReceiver(t *testing.T) { want(t, T{}.Name(), "T") }
func TestGenericMethod(t *testing.T) { want(t, (&List[string]{[]string{"a"}}).Has("a"), true) }
func TestGeneric(t *testing.T) {
	want(t, Map([]int{3}, func(n int) string { return string(rune('a' + n)) })[0], "d")
}
func TestVariadic(t *testing.T)  { want(t, Sum("", 1, 2, 3), 6); want(t, Sum(""), 0) }
func TestUnnamed(t *testing.T)   { want(t, Second(1, ""), 2) }
func TestNamed(t *testing.T) {
	n, err := Named(true)
	want(t, n, -1)
	want(t, err.Error(), "failed")
	n, err = Named(false)
	want(t, n, 1)
	want(t, err, nil)
}
func TestRecursion(t *testing.T) { want(t, Fib(10), 55) }
func TestClosure(t *testing.T)   { f := Counter(); f(); want(t, f(), 2) }
func TestRecover(t *testing.T)   { want(t, Panics(func() { panic("so") }), "so") }
func TestTwo(t *testing.T)       { want(t, Both(7), 7) }
func TestMarked(t *testing.T)    { want(t, Marked(), 3) }
func TestNoResult(t *testing.T)  { n := 0; Set(&n, 0, 0); want(t, n, 1) }
func TestSub(t *testing.T)       { t.Run("one", func(t *testing.T) { want(t, Second(1, ""), 2) }) }
`,
}

// inSample makes the module of samples and goes into it.
func inSample(t *testing.T) {
	t.Helper()
	inModule(t, sample)
}

// inModule makes a module and goes into it.
func inModule(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func edit(old, new string) []Edit { return []Edit{{File: "sample.go", Old: old, New: new}} }

// samples has a mutant of each kind of function, by the test that catches it.
var samples = map[string]struct {
	edits []Edit
	own   bool // it needs a build of its own
}{
	"Const":         {edit("limit = 7", "limit = 8"), true},
	"Var":           {edit(`{"a": limit}`, `{"b": limit}`), false},
	"Lines":         {edit(`limit + 1,`, `limit + 2,`), false},
	"Text":          {edit(`"text"`, `"texts"`), false},
	"Joined":        {edit(`"last"`, `"least"`), true}, // no text, but a sum of two
	"Init":          {edit(`append(order, "init")`, `append(order, "init", "init")`), true},
	"Recover":       {edit("r := recover(); r != nil", "r := recover(); r == nil"), true},
	"Marked":        {edit("return 3", "return 4"), true},
	"Closure":       {edit("n++; return n", "n++; return 1"), false},
	"Pointer":       {edit("t.n += n;", "t.n += 2 * n;"), false},
	"NoReceiver":    {edit(`"T" }`, `"U" }`), false},
	"GenericMethod": {edit("x == e", "x != e"), false},
	"Generic":       {edit("out = append(out, f(a))", "out = append([]B{*new(B)}, f(a))"), false},
	"Variadic":      {edit("sum += n", "sum -= n"), false},
	"Unnamed":       {edit("{ return 2 }", "{ return 1 }"), false},
	"Named":         {edit("n = -1", "n = -2"), false},
	"Recursion":     {edit("Fib(n-1) + Fib(n-2)", "Fib(n-1) + Fib(n-1)"), false},
	"NoResult":      {edit("{ *at = 1 }", "{ *at = 2 }"), false},
	"Two": {[]Edit{
		{File: "sample.go", Old: "return n / 2", New: "return n / 2 + 1"},
		{File: "other/other.go", Old: "return n - n/2", New: "return n"},
	}, false},
	"Sub/one": {edit("{ return 2 }", "{ return 3 }"), false},
}

func broken(change func(string) string) (all []Broken) {
	for _, test := range slices.Sorted(maps.Keys(samples)) {
		edits := slices.Clone(samples[test].edits)
		for i := range edits {
			if change != nil {
				edits[i].New = change(edits[i].Old)
			}
		}
		all = append(all, Broken{Name: test, Test: "Test" + test, Edits: edits})
	}
	return all
}

// A copy that is like its function does what that does: tests pass with it. Of
// each mutant the switch leads to its own copy.
func TestACopyDoesWhatItsFunctionDoes(t *testing.T) {
	inSample(t)
	// With a comment, or other quotes, all are different, and the same.
	same := func(old string) string {
		if !strings.Contains(old, " ") {
			return strings.ReplaceAll(old, `"`, "`")
		}
		return strings.Replace(old, " ", " /**/ ", 1)
	}
	all := broken(same)
	set := Build(t, "", all)
	for i, b := range all {
		if own := set.own[i] != nil; own != samples[b.Name].own {
			t.Errorf("%s: a build of its own: %v", b.Name, own)
		}
		if out, err := set.Command(t, i).CombinedOutput(); err != nil {
			t.Errorf("%s, which differs in a comment: %v\n%s", b.Name, err, out)
		}
	}
	all = broken(nil)
	set = Build(t, "", all)
	for i, b := range all {
		if set.own[i] != nil {
			continue
		}
		out, err := set.Command(t, i).CombinedOutput()
		want := 1
		switch b.Name {
		case "Unnamed", "Sub/one":
			want = 3 // the test of the other, and its subtest
		}
		test, _, _ := strings.Cut(b.Test, "/")
		if failed := strings.Count(string(out), "--- FAIL: "); err == nil || failed != want || !strings.Contains(string(out), "--- FAIL: "+test) {
			t.Errorf("%s fails %d tests, want %d: %v\n%s", b.Name, failed, want, err, out)
		}
	}
	if out, err := exec.Command(set.bin).CombinedOutput(); err != nil {
		t.Errorf("no mutant is alive: %v\n%s", err, out)
	}
}

// What is wrong with a mutant is told under its name, and the others are tried.
func TestWhatIsNotCaughtIsTold(t *testing.T) {
	const helper = "HOLDFAST_TEST_NOT_CAUGHT"
	if os.Getenv(helper) != "" {
		inSample(t)
		Catch(t, append(broken(nil),
			Broken{Name: "not caught", Test: "TestPointer", Edits: edit("n < 2", "n < 1")},
			Broken{Name: "not caught by its own build", Test: "TestPointer", Edits: edit("limit = 7", "limit = 8")},
			Broken{Name: "no such text", Test: "TestPointer", Edits: edit("n < 3", "n < 1")},
			Broken{Name: "no such file", Test: "TestPointer", Edits: []Edit{{File: "none.go", Old: "a", New: "b"}}},
			Broken{Name: "more than once", Test: "TestPointer", Edits: edit("return", "return 0 +")},
			Broken{Name: "no Go", Test: "TestPointer", Edits: edit("n < 2", "n < <")},
			Broken{Name: "of another type", Test: "TestPointer", Edits: edit("n < 2", "n < \"\"")},
			Broken{Name: "no such test", Test: "TestNone", Edits: edit("n < 2", "n < 1")},
		))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestWhatIsNotCaughtIsTold$")
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it passes:\n%s", out)
	}
	text := string(out)
	for name, why := range map[string]string{
		"not_caught": "TestPointer passes", "not_caught_by_its_own_build": "TestPointer passes",
		"no_such_text": `"n < 3" is in sample.go 0 times`, "no_such_file": "none.go: no such file",
		"more_than_once": `"return" is in sample.go`, "no_Go": "syntax error", "of_another_type": "mismatched types",
		"no_such_test": "there is no such test",
	} {
		_, told, found := strings.Cut(text, "--- FAIL: TestWhatIsNotCaughtIsTold/"+name+" (")
		told, _, _ = strings.Cut(told, "--- FAIL: ")
		if !found || !strings.Contains(told, why) {
			t.Errorf("%s: want %s", name, why)
		}
	}
	if n := strings.Count(text, "--- FAIL: "); n != 1+8 {
		t.Errorf("%d failures, want one and eight", n)
	}
	if want := fmt.Sprintf("%d mutants", len(samples)+8); !strings.Contains(text, want) {
		t.Errorf("not told: %s", want)
	}
	if t.Failed() {
		t.Log(text)
	}
}
