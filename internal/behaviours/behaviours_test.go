package behaviours

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const behaviours = "docs/behaviours.md"

// lastBehaviour is the largest number, and noBehaviour are the smaller numbers that were never used.
const lastBehaviour = 169

var noBehaviour = []int{9, 18, 36, 37, 42, 48, 57, 59, 64, 77, 94, 107, 113, 118, 122, 123, 132, 135, 151, 153, 154, 155}

func TestEachBehaviourIsProvedOrSaysWhyNot(t *testing.T) {
	page, err := os.ReadFile("../../" + behaviours)
	if err != nil {
		t.Fatal(err)
	}
	tests := findTests(t, "../..")
	if len(tests.funcs) < 100 || len(tests.subtests) < 100 {
		t.Fatalf("found only %d tests and %d subtests", len(tests.funcs), len(tests.subtests))
	}
	for _, w := range checkBehaviours(string(page), tests) {
		t.Error(behaviours+":", w)
	}
}

func TestTheCheckOfBehavioursFindsWhatIsWrong(t *testing.T) {
	tests := tests{funcs: map[string]bool{"TestA": true}, subtests: map[string]bool{"sub": true}}
	page := func(edit func(n int, row string) string) string {
		var b strings.Builder
		for n := 1; n <= lastBehaviour; n++ {
			row := fmt.Sprintf("| B%d | it holds | `TestA` |\n", n)
			if slices.Contains(noBehaviour, n) {
				row = ""
			}
			b.WriteString(edit(n, row))
		}
		return b.String()
	}
	for what, c := range map[string]struct {
		row  string
		want string
	}{
		"as it should be":        {"| B7 | it holds | `TestA/in between/sub`, of `Lost` |\n", ""},
		"decided":                {"| B7 | it holds | decided: never. |\n", ""},
		"of a store to come":     {"| B7 | it holds | comes with the other store. |\n", "B7 has no proof and does not say why"},
		"open":                   {"| B7 | it holds | open: nobody has looked |\n", ""},
		"missing":                {"", "B7 is missing"},
		"twice":                  {"| B7 | it holds | `TestA` |\n| B7 | it holds | `TestA` |\n", "B7 is there twice"},
		"no such number":         {"| B7 | it holds | `TestA` |\n| B9 | it holds | `TestA` |\n", "B9 is no behaviour"},
		"too large a number":     {"| B7 | it holds | `TestA` |\n| B170 | it holds | `TestA` |\n", "B170 is no behaviour"},
		"no such test":           {"| B7 | it holds | `TestA` `TestB` |\n", "B7 names TestB, which is no test"},
		"no such subtest":        {"| B7 | it holds | `TestA/sup` |\n", "B7 names TestA/sup, which has no such subtest"},
		"neither test nor words": {"| B7 | it holds | all is well |\n", "B7 has no proof and does not say why"},
		"no promise":             {"| B7 |  | `TestA` |\n", "B7 promises nothing"},
		"no table":               {"| B7 | it holds `TestA` |\n", "B7 is no row of three"},
	} {
		wrong := checkBehaviours(page(func(n int, row string) string {
			if n == 7 {
				return c.row
			}
			return row
		}), tests)
		if got := strings.Join(wrong, "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

var (
	rowOf     = regexp.MustCompile(`^\| B(\d+) \|`)
	namedTest = regexp.MustCompile("`(Test[^`]*)`")
	saysWhy   = regexp.MustCompile(`^(decided: |open: )`)
)

// checkBehaviours returns the errors of the page.
func checkBehaviours(page string, tests tests) (wrong []string) {
	bad := func(n int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("B%d %s", n, fmt.Sprintf(format, args...)))
	}
	seen := map[int]bool{}
	for line := range strings.Lines(page) {
		m := rowOf.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[1]) // it has digits only
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case seen[n]:
			bad(n, "is there twice")
		case n < 1 || n > lastBehaviour || slices.Contains(noBehaviour, n):
			bad(n, "is no behaviour")
		}
		seen[n] = true
		if len(cells) != 3 {
			bad(n, "is no row of three")
			continue
		}
		if strings.TrimSpace(cells[1]) == "" {
			bad(n, "promises nothing")
		}
		proof := strings.TrimSpace(cells[2])
		named := namedTest.FindAllStringSubmatch(proof, -1)
		if len(named) == 0 && !saysWhy.MatchString(proof) {
			bad(n, "has no proof and does not say why")
		}
		for _, m := range named {
			name, sub, _ := strings.Cut(m[1], "/")
			if !tests.funcs[name] {
				bad(n, "names %s, which is no test", m[1])
			} else if sub != "" && !tests.subtests[sub[strings.LastIndex(sub, "/")+1:]] {
				bad(n, "names %s, which has no such subtest", m[1])
			}
		}
	}
	for n := 1; n <= lastBehaviour; n++ {
		if !seen[n] && !slices.Contains(noBehaviour, n) {
			bad(n, "is missing")
		}
	}
	return wrong
}

// tests are the names of the tests of all modules, as far as the sources show them.
type tests struct {
	funcs    map[string]bool // TestX
	subtests map[string]bool // names passed to t.Run, each promise of the conformance suite, each script
}

func findTests(t *testing.T, root string) tests {
	t.Helper()
	found := tests{map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && path != root {
				return filepath.SkipDir // no source
			}
			return nil
		}
		if name, is := strings.CutSuffix(d.Name(), ".txtar"); is {
			found.subtests[name] = true
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found.in(file, strings.HasSuffix(path, "_test.go"), file.Name.Name == "storetest")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// in adds the tests of a file. For the package storetest it also adds the promises, which are literals with a name.
func (found *tests) in(file *ast.File, isTest, isSuite bool) {
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil {
				found.subtests[strings.ReplaceAll(name, " ", "_")] = true
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if isTest && n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				found.funcs[n.Name.Name] = true
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(n.Args) == 2 {
				add(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && isSuite && !isTest && key.Name == "name" {
				add(n.Value)
			}
		}
		return true
	})
}
