package storetest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Every store package of all modules runs the whole suite, the comparison, the
// faults and the killed processes. It calls each at the top of a test, where no condition can leave
// it out.
func TestEveryStoreRunsTheWholeSuite(t *testing.T) {
	stores, problems := inspect(t, mutant.Root(t))
	t.Logf("stores: %s", strings.Join(stores, " "))
	if !slices.Contains(stores, "memstore") {
		t.Error("memstore is not recognized as a store: the test is wrong")
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestAStoreThatLeavesThemOutIsFound(t *testing.T) {
	const described = "// # Stored form\n// # Guarantees\n// # Requirements\n// # Rights\n"
	const implements = described + "package s\nfunc (s *S) Describe() store.Description { return d }\n"
	const rest = "\nstoretest.Faults(t, linked)\nstoretest.Killed(t, killable)\nmutant.Catch(t, all)"
	const run, compare = "storetest.Run(t, open)", "storetest.Differential(t, clocked)" + rest
	const kit = "package objecttest\nfunc Suite(t *testing.T, s Subject) {\n" + run + "\n}\nfunc Other(t *testing.T, s Subject) {\nif s.Wanted {\n" + run + "\n}\n}\n"
	test := func(body string) string { return "package s\nfunc TestStore(t *testing.T) {\n" + body + "\n}\n" }
	for name, c := range map[string]struct {
		test     string
		problems int
	}{
		"both":          {test(run + "\n" + compare), 0},
		"in_subtests":   {test("for _, m := range modes {\nt.Run(m, func(t *testing.T) {\n" + run + "\n" + compare + "\n})\n}"), 0},
		"by_session":    {test(run + "\nstoretest.DifferentialBySession(t, sessioned)" + rest), 0},
		"none":          {test(""), 5},
		"one":           {test(run), 4},
		"conditional":   {test("if wanted {\n" + run + "\n}\n" + compare), 1},
		"after_a_skip":  {test("if testing.Short() {\nt.Skip()\n}\n" + run + "\n" + compare), 0}, // a skip is told in the report
		"by_the_kit":    {test("objecttest.Suite(t, s)\n" + compare), 0},
		"not_by_it":     {test("objecttest.Other(t, s)\n" + compare), 1},
		"not_in_a_test": {"package s\nfunc helper(t *testing.T) {\n" + run + "\n" + compare + "\n}\n", 4},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range map[string]string{"s/s.go": implements, "s/s_test.go": c.test, "other/other.go": "package other\n", "s/go.mod": "module s\n", "internal/objecttest/kit.go": kit} {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			stores, problems := inspect(t, root)
			if !slices.Equal(stores, []string{"s"}) || len(problems) != c.problems {
				t.Fatalf("got stores %v, problems %q, want %d problems", stores, problems, c.problems)
			}
		})
	}
}

// modelled are the stores that the named test compares with a model of their own,
// because they are not one queue. Each node of Redlock keeps a queue, in the order of
// the claims. PostgreSQL's server keeps the queues of advisory locks, so only the
// holders can be judged.
var modelled = map[string]string{
	"redisstore/redlock": "TestEveryNodeAnswersAsTheModel",
	"pgstore/pgadvisory": "TestSession_NeverTwoInsideUnderKills",
}

// unlinked are the stores without a network, and one whose holds end with their
// connection: the suite of faults does not apply to it.
var unlinked = []string{"memstore", "filestore", "pgstore/pgadvisory"}

// mutated is the store on which the suites' own mutants are tried, in this package.
const mutated = "memstore"

// built are packages that stores are built on: users do not open them.
const built = "store/record"

// unkilled are the stores whose state ends with the process, and those that see the end of a process at once and
// have their own tests for that.
var unkilled = []string{"memstore", built, "filestore", "pgstore/pgadvisory"}

// inspect finds the packages that have a method Describe of a store, and returns
// what their tests leave out. There are no stores below internal, in prove and in
// recordtest: what looks like one there wraps another, or is a backend.
func inspect(t *testing.T, root string) (stores, problems []string) {
	t.Helper()
	type source struct {
		*ast.File
		test bool
	}
	dirs := map[string][]source{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "internal" || d.Name() == "recordtest" || path == filepath.Join(root, "prove")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				return err
			}
			dirs[filepath.Dir(path)] = append(dirs[filepath.Dir(path)], source{file, strings.HasSuffix(path, "_test.go")})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kit := kitOf(t, root)
	for dir, files := range dirs {
		name, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.ToSlash(name)
		called := map[string]bool{}
		isStore, doc := false, ""
		for _, file := range files {
			if !file.test {
				doc += file.Doc.Text()
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				isStore = isStore || describes(f) && !file.test
				if file.test && f.Recv == nil && f.Name.Name == modelled[name] {
					called["Differential"] = true
				}
				switch of := map[string]bool{}; {
				case !file.test || f.Recv != nil:
				case strings.HasPrefix(f.Name.Name, "Test"):
					calls(f.Body, called, kit)
				default: // a function of the tests may try the mutants
					calls(f.Body, of, kit)
					called["Catch"] = called["Catch"] || of["Catch"]
				}
			}
		}
		if !isStore {
			continue
		}
		stores = append(stores, name)
		if name != built {
			for _, h := range lacking(doc) {
				problems = append(problems, fmt.Sprintf("%s is a store, but its documentation has no heading %q, or has it in the wrong order", name, h))
			}
		}
		if slices.Contains(unlinked, name) {
			called["Faults"] = true
		}
		if slices.Contains(unkilled, name) {
			called["Killed"] = true
		}
		if !called["Catch"] && name != mutated {
			problems = append(problems, fmt.Sprintf("%s is a store, but its tests do not call mutant.Catch unconditionally", name))
		}
		for _, what := range []string{"Run", "Differential", "Faults", "Killed"} {
			if !called[what] && !called[what+"BySession"] {
				problems = append(problems, fmt.Sprintf("%s is a store, but none of its tests calls storetest.%s unconditionally", name, what))
			}
		}
	}
	slices.Sort(stores)
	slices.Sort(problems)
	return stores, problems
}

// The check finds a store's page without a heading, or with one out of order.
func TestAStoreThatLeavesOutAHeadingIsFound(t *testing.T) {
	for _, c := range []struct {
		doc  string
		want []string
	}{
		{"# Stored form\n\n# Guarantees\n\n# Order\n\n# Requirements\n\n# Rights\n", nil},
		{"# Stored form\n\n# Guarantees\n\n# Requirements\n", []string{"Rights"}},
		{"# Guarantees\n\n# Stored form\n\n# Requirements\n\n# Rights\n", []string{"Guarantees"}},
		{"Rights\n", headings},
	} {
		if got := lacking(c.doc); !slices.Equal(got, c.want) {
			t.Errorf("%q: got missing headings %q, want %q", c.doc, got, c.want)
		}
	}
}

// headings are those of every store's page, in order; others can be between them.
var headings = []string{"Stored form", "Guarantees", "Requirements", "Rights"}

// lacking are the headings that are missing in a package's documentation, or not after
// the one before.
func lacking(doc string) (all []string) {
	lines := strings.Split(doc, "\n")
	for _, h := range headings {
		if at := slices.Index(lines, "# "+h); at >= 0 {
			lines = lines[at+1:]
		} else {
			all = append(all, h)
		}
	}
	return all
}

// describes reports whether f is a method Describe() store.Description.
func describes(f *ast.FuncDecl) bool {
	return f.Recv != nil && f.Name.Name == "Describe" && f.Type.Results.NumFields() == 1 &&
		selects(f.Type.Results.List[0].Type, "store", "Description")
}

// kitOf returns which functions of storetest each function of internal/objecttest calls: object stores run the suites by it.
func kitOf(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "internal", "objecttest", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	kit := map[string]map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Body != nil {
				kit[f.Name.Name] = map[string]bool{}
				calls(f.Body, kit[f.Name.Name], nil)
			}
		}
	}
	return kit
}

// calls records the functions of storetest that the block calls, itself or by the kit, and mutant.Catch, except
// those behind a condition.
func calls(block ast.Node, called map[string]bool, kit map[string]map[string]bool) {
	ast.Inspect(block, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			return false
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (selects(n.Fun, "storetest", sel.Sel.Name) || selects(n.Fun, "mutant", "Catch")) {
				called[sel.Sel.Name] = true
			} else if ok && selects(n.Fun, "objecttest", sel.Sel.Name) {
				maps.Copy(called, kit[sel.Sel.Name])
			}
		}
		return true
	})
}

func selects(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

func TestTheExampleOfRunPasses(t *testing.T) { testStore(t) }
