package mutant

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Many mutants go into one build. Each function that a mutant changes gets a copy with the
// change. The function begins with a switch, which calls the copy of the mutant that the
// environment names. So a mutant costs the start of a program, not a build. For a package
// variable or a string constant, the values of all mutants are listed after the original one.
//
// The copy is a separate function, not a block in the original one, because := and defer mean
// something else in a block.

// AliveEnv is the variable with the number of the mutant that is alive in a build with many. A
// test that starts itself with another environment must pass it on.
const AliveEnv = "HOLDFAST_TEST_MUTANT"

// metEnv is the variable with the path of a file that is created when a function changed by the
// mutant is called.
const metEnv = "HOLDFAST_TEST_MUTANT_MET"

// aliveFile is added to each package that has switches.
const aliveFile = `package %s

import (
	os__ "os"
	strconv__ "strconv"
	sync__ "sync"
)

var alive__ = func() int {
	n, err := strconv__.Atoi(os__.Getenv("` + AliveEnv + `"))
	if err != nil {
		return -1
	}
	return n
}()

var met__ = sync__.OnceFunc(func() {
	if file := os__.Getenv("` + metEnv + `"); file != "" {
		os__.WriteFile(file, nil, 0o600)
	}
})

type other__[T any] struct {
	mutant int
	value  T
}

func in__[T any](mutant int, value T) other__[T] { return other__[T]{mutant, value} }

func pick__[T any](value T, others ...other__[T]) T {
	for _, other := range others {
		if other.mutant == alive__ {
			return other.value
		}
	}
	return value
}
`

// A schemata is a set of files with switches.
type schemata struct {
	module *Overlay             // the original files
	files  map[string]*switched // by path in the module
}

// A switched is a file with functions that have switches.
type switched struct {
	*source
	copies map[int][]copied // by index of the declaration in the file
}

// A copied is a mutant's version of a function body or a variable's value.
type copied struct {
	mutant int
	body   string
}

// A source is a parsed file.
type source struct {
	path, text string
	fset       *token.FileSet
	file       *ast.File
}

func parse(path, text string) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{path, text, fset, file}, err
}

func (s *source) at(p token.Pos) int          { return s.fset.Position(p).Offset }
func (s *source) slice(a, b token.Pos) string { return s.text[s.at(a):s.at(b)] }

// add adds a mutant. It returns false if the mutant changes more than values and the bodies of
// functions that can have a switch.
func (s *schemata) add(mutant int, b *Broken) bool {
	edits, err := s.module.inCode(b.Edits)
	if err != nil {
		return false
	}
	changes := map[string]map[int]string{}
	for _, e := range edits {
		path, err := s.module.place(e)
		if err != nil {
			return false
		}
		if changes[path] != nil {
			continue
		}
		file := s.files[path]
		if file == nil {
			text, err := s.module.edited(path, nil)
			if err != nil {
				return false
			}
			before, err := parse(path, text)
			if err != nil {
				return false
			}
			file = &switched{source: before, copies: map[int][]copied{}}
			s.files[path] = file
		}
		text, err := s.module.edited(path, edits)
		if err != nil {
			return false
		}
		after, err := parse(path, text)
		if err != nil {
			return false
		}
		bodies, ok := file.changed(after)
		if !ok {
			return false
		}
		changes[path] = bodies
	}
	for path, bodies := range changes {
		for i, body := range bodies {
			s.files[path].copies[i] = append(s.files[path].copies[i], copied{mutant, body})
		}
	}
	return true
}

// changed returns the bodies and values that differ in after, by declaration. ok is false if
// more than that differs, or if a changed function cannot have a switch.
func (s *source) changed(after *source) (bodies map[int]string, ok bool) {
	if strings.HasSuffix(s.path, "_test.go") || len(s.file.Decls) != len(after.file.Decls) {
		return nil, false
	}
	bodies = map[int]string{}
	for i, was := range s.file.Decls {
		is := after.file.Decls[i]
		if s.slice(was.Pos(), was.End()) == after.slice(is.Pos(), is.End()) {
			continue
		}
		if v, w := value(was), value(is); v != nil && w != nil && s.slice(was.Pos(), v.Pos()) == after.slice(is.Pos(), w.Pos()) {
			bodies[i] = after.slice(w.Pos(), w.End())
			continue
		}
		f, ok := was.(*ast.FuncDecl)
		g, same := is.(*ast.FuncDecl)
		if !ok || !same || !switchable(f) || !switchable(g) || s.slice(f.Pos(), f.Body.Lbrace) != after.slice(g.Pos(), g.Body.Lbrace) {
			return nil, false
		}
		bodies[i] = after.slice(g.Body.Lbrace, g.Body.End())
	}
	return bodies, len(bodies) > 0
}

// value returns the value of a variable, or of a string constant, that has its own declaration;
// otherwise nil.
func value(decl ast.Decl) ast.Expr {
	d, ok := decl.(*ast.GenDecl)
	if !ok || len(d.Specs) != 1 {
		return nil
	}
	spec, ok := d.Specs[0].(*ast.ValueSpec)
	if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
		return nil
	}
	if text, ok := spec.Values[0].(*ast.BasicLit); d.Tok == token.CONST && (!ok || text.Kind != token.STRING) {
		return nil
	}
	return spec.Values[0]
}

// switchable reports whether f still works the same if it calls a copy of itself.
func switchable(f *ast.FuncDecl) bool {
	if f.Body == nil || f.Recv == nil && f.Name.Name == "init" || f.Name.Name == "_" {
		return false
	}
	if f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") }) {
		return false
	}
	if f.Type.TypeParams != nil && slices.Contains(names(f.Type.TypeParams), "_") {
		return false
	}
	recovers := false // recover does nothing in a function that is called by a deferred one
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, ok := call.Fun.(*ast.Ident)
			recovers = recovers || ok && name.Name == "recover"
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return !recovers
}

func names(list *ast.FieldList) (all []string) {
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name)
		}
	}
	return all
}

// lay lays the files over the module, without the skipped mutants.
func (s *schemata) lay(o *Overlay, skip map[int]bool) {
	packages := map[string]string{}
	for p, file := range s.files {
		if text, any := file.print(skip); any {
			o.Add(p, text)
			packages[path.Dir(p)] = file.file.Name.Name
		}
	}
	for dir, name := range packages {
		o.Add(path.Join(dir, "alive__.go"), fmt.Sprintf(aliveFile, name))
	}
}

// print returns the file with switches, followed by the copies.
func (s *switched) print(skip map[int]bool) (text string, any bool) {
	type insertion struct {
		at, end int // the text between them is replaced
		text    string
	}
	var in []insertion
	behind := &bytes.Buffer{}
	for i, decl := range s.file.Decls {
		copies := slices.DeleteFunc(slices.Clone(s.copies[i]), func(c copied) bool { return skip[c.mutant] })
		if len(copies) == 0 {
			continue
		}
		if v := value(decl); v != nil {
			d := decl.(*ast.GenDecl)
			line := s.fset.Position(v.Pos()).Line
			in = append(in, insertion{s.at(d.TokPos), s.at(d.TokPos) + len(d.Tok.String()), "var"})
			picks := "pick__(" + s.slice(v.Pos(), v.End())
			for _, c := range copies {
				picks += fmt.Sprintf(", in__(%d, /*line mutant-%d.go:%d:1*/%s/*line %s:%d:1*/)", c.mutant, c.mutant, line, c.body, path.Base(s.path), line)
			}
			in = append(in, insertion{s.at(v.Pos()), s.at(v.End()), picks + ")"})
			continue
		}
		f := decl.(*ast.FuncDecl)
		// The switch needs a name for each parameter.
		n := 0
		named := func(list *ast.FieldList) (args []string) {
			if list == nil {
				return nil
			}
			for _, field := range list.List {
				if len(field.Names) == 0 {
					n++
					name := fmt.Sprintf("p%d__", n)
					in = append(in, insertion{s.at(field.Type.Pos()), s.at(field.Type.Pos()), name + " "})
					args = append(args, name)
				}
				for _, name := range field.Names {
					if name.Name == "_" {
						n++
						in = append(in, insertion{s.at(name.Pos()), s.at(name.End()), fmt.Sprintf("p%d__", n)})
						args = append(args, fmt.Sprintf("p%d__", n))
					} else {
						args = append(args, name.Name)
					}
				}
				if _, variadic := field.Type.(*ast.Ellipsis); variadic {
					args[len(args)-1] += "..."
				}
			}
			return args
		}
		to := ""
		if f.Recv != nil {
			to = named(f.Recv)[0] + "."
		}
		args := strings.Join(named(f.Type.Params), ", ")
		types := ""
		if f.Type.TypeParams != nil {
			types = "[" + strings.Join(names(f.Type.TypeParams), ", ") + "]"
		}
		cases := ""
		for _, c := range copies {
			name := fmt.Sprintf("%s__%d", f.Name.Name, c.mutant)
			call := to + name + types + "(" + args + ")"
			if f.Type.Results != nil {
				call = "return " + call
			} else {
				call += "; return"
			}
			cases += fmt.Sprintf(" case %d: met__(); %s;", c.mutant, call)
			fmt.Fprintf(behind, "\n\n//line mutant-%d.go:%d\n", c.mutant, s.fset.Position(f.Pos()).Line)
			behind.WriteString(s.slice(f.Pos(), f.Name.Pos()) + name + s.slice(f.Name.End(), f.Body.Lbrace) + c.body)
		}
		in = append(in, insertion{s.at(f.Body.Lbrace) + 1, s.at(f.Body.Lbrace) + 1, " switch alive__ {" + cases + " };"})
	}
	if len(in) == 0 {
		return "", false
	}
	slices.SortFunc(in, func(a, b insertion) int { return a.at - b.at })
	var out strings.Builder
	last := 0
	for _, i := range in {
		out.WriteString(s.text[last:i.at] + i.text)
		last = i.end
	}
	out.WriteString(s.text[last:])
	out.Write(behind.Bytes())
	out.WriteString("\n")
	return out.String(), true
}

// inMutant finds the mutant that a compiler error is about.
var inMutant = regexp.MustCompile(`mutant-([0-9]+)\.go:`)

func complaints(out []byte) (mutants map[int]bool) {
	mutants = map[int]bool{}
	for _, m := range inMutant.FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		mutants[n] = true
	}
	return mutants
}
