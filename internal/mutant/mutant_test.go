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

	"github.com/holdfast-go/holdfast/internal/testserver"
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

const limit = 7 //mutant:limit

var table = map[string]int{"a": limit} //mutant:table

const motto = "first" + //mutant:motto
	"last"

const word = "text" //mutant:word

var table2 = map[string]int{
	"b": limit + 1, //mutant:pair
}

var order []string

func init() { order = append(order, "init") } //mutant:init

type T struct{ n int }

func (t *T) Add(n int) int { t.n += n; return t.n } //mutant:add

func (T) Name() string { return "T" } //mutant:name

type List[E comparable] struct{ all []E }

func (l *List[E]) Has(e E) bool {
	for _, x := range l.all {
		if x == e { //mutant:has
			return true
		}
	}
	return false
}

func Map[A, B any](all []A, f func(A) B) (out []B) {
	for _, a := range all {
		out = append(out, f(a)) //mutant:map
	}
	return out
}

func Sum(_ string, all ...int) (sum int) {
	for _, n := range all {
		sum += n //mutant:sum
	}
	return
}

func Second(int, string) int { return 2 } //mutant:second

func Named(fail bool) (n int, err error) {
	defer func() {
		if err != nil {
			n = -1 //mutant:deferred
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
	if n < 2 { //mutant:fib-end
		return n //mutant:twice
	}
	return Fib(n-1) + Fib(n-2) //mutant:fib
}

func Counter() func() int {
	n := 0
	return func() int { n++; return n } //mutant:counter
}

func Panics(f func()) (text string) {
	defer caught(&text)
	f()
	return "no panic"
}

func caught(text *string) {
	if r := recover(); r != nil { //mutant:recover
		*text = fmt.Sprint(r)
	}
}

func Both(n int) int { return half(n) + other.Half(n) }

func half(n int) int { return n / 2 } //mutant:half

//go:noinline
func Marked() int { return 3 } //mutant:marked

func Set(at *int, _, _ int) { *at = 1 } //mutant:set
`,
	"other/other.go": "package other\n\nfunc Half(n int) int { return n - n/2 } //mutant:other-half\n\nvar twice = 2 //mutant:twice\n",
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

// inSample makes the sample module and changes to its directory.
func inSample(t *testing.T) {
	t.Helper()
	inModule(t, sample)
}

// inModule makes a module and changes to its directory.
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

func at(mark string, do Op) []Edit { return []Edit{At(mark, do)} }

// samples has a mutant for each kind of function, by the test that catches it.
var samples = map[string]struct {
	edits []Edit
	own   bool // it needs a build of its own
}{
	"Const":         {at("limit", Value("8")), true},
	"Var":           {at("table", Value(`map[string]int{"b": limit}`)), false},
	"Lines":         {at("pair", Value("limit + 2")), false},
	"Text":          {at("word", Value(`"texts"`)), false},
	"Joined":        {at("motto", Value(`"first" + "least"`)), true}, // no literal, but a sum of two
	"Init":          {at("init", Value(`append(order, "init", "init")`)), true},
	"Recover":       {at("recover", Cond("r == nil")), true},
	"Marked":        {at("marked", Return("4")), true},
	"Closure":       {at("counter", Return("func() int { n++; return 1 }")), false},
	"Pointer":       {at("add", Value("2 * n")), false},
	"NoReceiver":    {at("name", Return(`"U"`)), false},
	"GenericMethod": {at("has", Cond("x != e")), false},
	"Generic":       {at("map", Value("append([]B{*new(B)}, f(a))")), false},
	"Variadic":      {at("sum", Stmt("sum -= n")), false},
	"Unnamed":       {at("second", Return("1")), false},
	"Named":         {at("deferred", Value("-2")), false},
	"Recursion":     {at("fib", Return("Fib(n-1) + Fib(n-1)")), false},
	"NoResult":      {at("set", Value("2")), false},
	"Two":           {[]Edit{At("half", Return("n/2 + 1")), At("other-half", Return("n"))}, false},
	"Sub/one":       {at("second", Return("3")), false},
}

func broken(change func(Op) Op) (all []Broken) {
	for _, test := range slices.Sorted(maps.Keys(samples)) {
		edits := slices.Clone(samples[test].edits)
		for i := range edits {
			if change != nil {
				edits[i].Do = change(edits[i].Do)
			}
		}
		all = append(all, Broken{Name: test, Test: "Test" + test, Edits: edits})
	}
	return all
}

// A copy that equals its function does the same: tests pass with it. For each mutant the switch leads to its own copy.
func TestACopyDoesWhatItsFunctionDoes(t *testing.T) {
	inSample(t)
	// With brackets, or with other quotes, each copy differs in text and does the same.
	same := func(do Op) Op {
		switch {
		case do == Value(`"texts"`): // only text can replace a constant
			return Value("`text`")
		case do.kind == opStmt:
			return Stmt("{ WAS }")
		}
		return Op{do.kind, "(WAS)", ""}
	}
	all := broken(same)
	set := Build(t, "", all)
	for i, b := range all {
		if own := set.own[i] != nil; own != samples[b.Name].own {
			t.Errorf("%s: has a build of its own: %v, want the opposite", b.Name, own)
		}
		if out, err := set.Command(t, i).CombinedOutput(); err != nil {
			t.Errorf("%s, which differs only in brackets: %v\n%s", b.Name, err, out)
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
			want = 3 // the other one's test, and its subtest
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

// An error of a mutant is reported under its name, and the other mutants are still tried.
func TestAnUncaughtMutantIsReported(t *testing.T) {
	const helper = "HOLDFAST_TEST_NOT_CAUGHT"
	if os.Getenv(helper) != "" {
		inSample(t)
		Catch(t, append(broken(nil),
			Broken{Name: "not caught", Test: "TestPointer", Edits: at("fib-end", Cond("n < 1"))},
			Broken{Name: "not caught by its own build", Test: "TestPointer", Edits: at("limit", Value("8"))},
			Broken{Name: "no such mark", Test: "TestPointer", Edits: at("none", Cond("n < 1"))},
			Broken{Name: "nothing of the kind", Test: "TestPointer", Edits: at("fib", Cond("n < 1"))},
			Broken{Name: "more than once", Test: "TestPointer", Edits: at("twice", Value("0"))},
			Broken{Name: "no Go", Test: "TestPointer", Edits: at("fib-end", Cond("n < <"))},
			Broken{Name: "of another type", Test: "TestPointer", Edits: at("fib-end", Cond(`n < ""`))},
			Broken{Name: "no such test", Test: "TestNone", Edits: at("fib-end", Cond("n < 1"))},
		))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAnUncaughtMutantIsReported$")
	cmd.Env = append(os.Environ(), helper+"=1", testserver.NightlyEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the test passes:\n%s", out)
	}
	text := string(out)
	for name, why := range map[string]string{
		"not_caught": "TestPointer passes", "not_caught_by_its_own_build": "TestPointer passes",
		"no_such_mark": "no file has the mark mutant:none", "nothing_of_the_kind": "there is no condition at the mark",
		"more_than_once": "the mark mutant:twice is in the module twice", "no_Go": "syntax error", "of_another_type": "mismatched types",
		"no_such_test": "there is no such test",
	} {
		_, told, found := strings.Cut(text, "--- FAIL: TestAnUncaughtMutantIsReported/"+name+" (")
		told, _, _ = strings.Cut(told, "--- FAIL: ")
		if !found || !strings.Contains(told, why) {
			t.Errorf("%s: the report does not say %s", name, why)
		}
	}
	if n := strings.Count(text, "--- FAIL: "); n != 1+8 {
		t.Errorf("got %d failures, want one and eight", n)
	}
	if want := fmt.Sprintf("%d mutants", len(samples)+8); !strings.Contains(text, want) {
		t.Errorf("the output does not say %s", want)
	}
	if t.Failed() {
		t.Log(text)
	}
}
