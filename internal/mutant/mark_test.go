package mutant

import (
	"go/format"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// marked has a mark of every kind.
const marked = `package p

var table = []string{"a"} //mutant:table

func f(a, b int) (int, error) { //mutant:f
	if a > b { //mutant:bigger
		return a, nil //mutant:bigger-result
	} else if a == b && /*mutant:inline*/ b > 0 { // the same //mutant:same
		b++
	}
	x := map[string]int{ //mutant:x
		"a": a, //mutant:x-a
	}
	first(x) //mutant:first
	second(
		a,
		b+1, //mutant:argument
	)
	for i := range a { //mutant:range
		switch {
		case i == 3, i == 4: //mutant:case
			third(func() {
				a++
			}) //mutant:end
		}
	}
	for a < 3 &&
		b < 3 { //mutant:loop
		a++
	}
	return b, nil
}
`

// Each operation changes what it is named for, at its mark, and nothing else.
func TestAnOperationChangesWhatIsMarked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mark     string
		do       Op
		old, new string // what is replaced in marked; or an error
	}{
		{"first", Line("WAS; g()"), "first(x)", "first(x); g()"},
		{"table", Value("nil"), `[]string{"a"} //`, "nil //"},
		{"f", First("a = b"), "{ //mutant:f\n", "{\na = b //mutant:f\n"},
		{"bigger", Cond("a >= b"), "a > b {", "a >= b {"},
		{"bigger", Cond("!(WAS)"), "a > b {", "!(a > b) {"},
		{"bigger", First("a--"), "{ //mutant:bigger\n", "{\na-- //mutant:bigger\n"},
		{"bigger", Before("a--"), "if a > b {", "a--\nif a > b {"},
		{"bigger-result", Return("0, nil"), "a, nil //", "0, nil //"},
		{"bigger-result", Delete(), "return a, nil //", " //"},
		{"inline", Expr("true"), "b > 0", "true"},
		{"same", Cond("false"), "a == b && /*mutant:inline*/ b > 0", "false"},
		{"x", Value("g()"), "map[string]int{ //mutant:x\n\t\t\"a\": a, //mutant:x-a\n\t}", "g()"},
		{"x-a", Value("b"), `"a": a,`, `"a": b,`},
		{"first", Swap(), "first(x) //mutant:first\n\tsecond(\n\t\ta,\n\t\tb+1, //mutant:argument\n\t)", "second(\n\t\ta,\n\t\tb+1, //mutant:argument\n\t)\nfirst(x)"},
		{"first", Delete(), "first(x) ", " "},
		{"first", Stmt("go WAS"), "first(x)", "go first(x)"},
		{"first", After("a++"), "first(x) ", "first(x)\na++ "},
		{"first", Line("g()"), "first(x)", "g()"},
		{"argument", Expr("b"), "b+1", "b"},
		{"range", Value("b"), "range a", "range b"},
		{"case", Cond("i == 3"), "i == 3, i == 4:", "i == 3:"},
		{"case", First("a++"), ": //mutant:case\n", ":\na++ //mutant:case\n"},
		{"end", Before("a++"), "third(", "a++\nthird("},
		{"loop", Cond("false"), "a < 3 &&\n\t\tb < 3 {", "false {"},
		{"first", Cond("true"), "", "there is no condition at the mark, in line 14 of p.go"},
		{"bigger", Return("0"), "", "there is no return at the mark"},
		{"first", Delete().If("true"), "", "a condition is for scripts and statements"},
		{"none", Delete(), "", "the mark mutant:none is not in p.go"},
	} {
		s, err := parse("p.go", marked)
		if err != nil {
			t.Fatal(err)
		}
		have, err := s.edit(At(c.mark, c.do))
		if c.old == "" {
			if err == nil || !strings.Contains(err.Error(), c.new) {
				t.Errorf("%s: got %v, want %q", c.mark, err, c.new)
			}
			continue
		}
		if n := strings.Count(marked, c.old); n != 1 || err != nil {
			t.Errorf("%s: %q occurs %d times, want once; %v", c.mark, c.old, n, err)
			continue
		}
		// The comments may be on another line.
		bare := func(text string) string {
			b, err := format.Source([]byte(anyMark.ReplaceAllString(text, "\n")))
			if err != nil {
				t.Errorf("%s: %v in\n%s", c.mark, err, text)
			}
			return strings.Join(strings.Fields(string(b)), " ")
		}
		if want := bare(strings.Replace(marked, c.old, c.new, 1)); bare(have) != want {
			t.Errorf("%s: got %s\nwant %s", c.mark, bare(have), want)
		}
	}
}

var anyMark = regexp.MustCompile(`/\*mutant:[a-z-]+\*/|//mutant:[a-z-]+\n`)

// A mutant follows its mark to another file, and to a reworded line. A mark that is missing, or that exists twice, is
// reported.
func TestAMutantGoesWithItsMark(t *testing.T) {
	const helper = "HOLDFAST_TEST_MARKS"
	module := func(where, code string) map[string]string {
		return map[string]string{
			"go.mod": "module sample\n\ngo 1.26\n",
			"p.go":   "package p\n", where: "package p\n\n" + code,
			"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tif Max(1, 2) != 2 {\n\t\tt.Error(\"1\")\n\t}\n}\n",
		}
	}
	all := map[string]struct {
		files map[string]string
		why   string
	}{
		"as it was": {module("p.go", "func Max(a, b int) int {\n\tif a < b { //mutant:greater\n\t\treturn b\n\t}\n\treturn a\n}\n"), ""},
		"moved":     {module("q.go", "func Max(a, b int) int {\n\tif a < b { //mutant:greater\n\t\treturn b\n\t}\n\treturn a\n}\n"), ""},
		"reworded":  {module("p.go", "func Max(x, y int) int {\n\tgreatest := x\n\tif y >= x { //mutant:greater\n\t\tgreatest = y\n\t}\n\treturn greatest\n}\n"), ""},
		"gone":      {module("p.go", "func Max(a, b int) int { return max(a, b) }\n"), "no file has the mark mutant:greater"},
		"twice":     {module("q.go", "func Max(a, b int) int {\n\tif a < b { //mutant:greater\n\t\treturn b\n\t}\n\treturn a //mutant:greater\n}\n"), "the mark mutant:greater is in the module twice"},
	}
	if name := os.Getenv(helper); name != "" {
		inModule(t, all[name].files)
		Catch(t, []Broken{{Name: "the least", Test: "TestMax", Edits: []Edit{At("greater", Cond("false"))}}})
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^TestAMutantGoesWithItsMark$")
			cmd.Env = append(os.Environ(), helper+"="+name)
			out, err := cmd.CombinedOutput()
			if (err == nil) != (c.why == "") || !strings.Contains(string(out), c.why) {
				t.Errorf("got %v, want %q:\n%s", err, c.why, out)
			}
		})
	}
}

// A test of one module of a workspace catches a mutant of another module, if that is in the same workspace.
func TestAMutantOfAnotherModuleOfTheWorkspaceIsCaught(t *testing.T) {
	inModule(t, map[string]string{
		"go.work":     "go 1.26\n\nuse (\n\t.\n\t./b\n)\n",
		"go.mod":      "module sample\n\ngo 1.26\n",
		"p.go":        "package p\n\nfunc Max(a, b int) int {\n\tif a < b { //mutant:greater\n\t\treturn b\n\t}\n\treturn a\n}\n",
		"b/go.mod":    "module sample/b\n\ngo 1.26\n",
		"b/b.go":      "package b\n\nimport p \"sample\"\n\nfunc Most(a, b int) int {\n\treturn p.Max(a, b) //mutant:most\n}\n",
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestMost(t *testing.T) {\n\tif Most(1, 2) != 2 {\n\t\tt.Error(\"1\")\n\t}\n}\n",
	})
	t.Chdir("b")
	Catch(t, []Broken{
		{Name: "of the other", Pkg: "b", Test: "TestMost", Edits: []Edit{At("greater", Cond("false"))}},
		{Name: "of its own", Pkg: "b", Test: "TestMost", Edits: []Edit{At("most", Return("1"))}},
	})
}

// A mark that no mutant names is left over. It would claim that a test watches its line.
func TestEachMarkOfTheModuleIsNamedByAMutant(t *testing.T) {
	t.Parallel()
	root := New(t).root
	all, err := marks(root)
	if err != nil {
		t.Fatal(err)
	}
	delete(all, loader)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		for mark := range maps.Clone(all) {
			if strings.Contains(string(text), `"`+mark+`"`) {
				delete(all, mark)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range slices.Sorted(maps.Keys(all)) {
		t.Errorf("no mutant names the mark mutant:%s, in %s", mark, all[mark])
	}
}
