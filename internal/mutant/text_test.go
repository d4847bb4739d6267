package mutant

import (
	"strings"
	"testing"
)

// In a script or a statement the marked line is replaced, and no other.
func TestALineOfATextIsChangedAtItsMark(t *testing.T) {
	t.Parallel()
	const text = "-- What it does --mutant:comment\nif a then --mutant:if\n\treturn 1 --mutant:one\nend\nreturn --mutant:middle two\n"
	for _, c := range []struct {
		mark     string
		do       Op
		old, new string
		wrong    string
	}{
		{"if", Line("if not (a) then"), "if a then --mutant:if", "if not (a) then", ""},
		{"one", Line("WAS + 1"), "return 1 --mutant:one", "return 1 + 1", ""},
		{"one", Delete(), "return 1 --mutant:one", "", ""},
		{"one", Return("2"), "", "", "can only be replaced or deleted"},
		{"comment", Delete(), "", "", "is not at the end of a line of code"},
		{"middle", Delete(), "", "", "is not at the end of a line of code"},
		{"none", Delete(), "", "", "is not there"},
	} {
		old, new, err := lineAt(text, At(c.mark, c.do))
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) || old != c.old || new != c.new {
			t.Errorf("%s: got %q, %q, %v, want %q, %q, %q", c.mark, old, new, err, c.old, c.new, c.wrong)
		}
	}
}

// Mutants of embedded files and of code share one build.
func TestMutantsOfTextsAreInOneBuild(t *testing.T) {
	inModule(t, map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"own/own.go": `package own

import (
	"fmt"
	"io/fs"
	"strings"
)

func Text(name string, files fs.FS) string {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		panic(fmt.Sprintln(err, strings.ToUpper(name)))
	}
	return string(b) //mutant:embedded-text
}
`,
		"p.go": `package p

import (
	"embed"

	"sample/own"
)

//go:embed ask.lua ask.sql
var files embed.FS

func Count() int {
	return len(own.Text("ask.lua", files)) + len(own.Text("ask.sql", files)) //mutant:sum
}
`,
		"ask.lua":   "return 1 --mutant:lua\n",
		"ask.sql":   "SELECT 1 --mutant:sql-one\nSELECT 2 --mutant:sql-two\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestCount(t *testing.T) {\n\tif n := Count(); n != 22+26+26 {\n\t\tt.Error(n)\n\t}\n}\n",
	})
	all := []Broken{
		{Name: "script", Edits: []Edit{At("lua", Line("WAS"))}},
		{Name: "statement", Edits: []Edit{At("sql-one", Delete())}},
		{Name: "statements", Edits: []Edit{At("sql-one", Line("SELECT 3")), At("sql-two", Line("WAS, 4"))}},
		{Name: "code", Edits: []Edit{At("sum", Return("0"))}},
		{Name: "where it holds", Edits: []Edit{At("sql-one", Delete().If(`name == "ask.sql"`)), At("sql-two", Delete().If("len(name) == 0"))}},
	}
	for i := range all {
		all[i].Test = "TestCount"
	}
	set := Build(t, "", all)
	if len(set.own) > 0 {
		t.Errorf("%d mutants have a build of their own, want none", len(set.own))
	}
	for i, want := range []string{"61", "49", "43", "0", "49"} {
		if r := set.Run(t, i, "TestCount", limit, nil); !r.Met || !strings.Contains(string(r.Output), "p_test.go:7: "+want+"\n") {
			t.Errorf("%s: met: %v, want %s:\n%s", all[i].Name, r.Met, want, r.Output)
		}
	}
	if r := set.Run(t, None, "TestCount", limit, nil); r.Met || r.Err != nil {
		t.Errorf("without a mutant: got met: %v, %v\n%s", r.Met, r.Err, r.Output)
	}
}
