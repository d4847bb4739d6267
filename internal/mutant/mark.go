package mutant

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A mark in the source names a place where a mutant differs, by a comment at
// the end of the line:
//
//	if now >= deadline { //mutant:deadline
//
// A mark is there once in the module, in whichever file. What is done there is
// said in the syntax of Go (the condition is false, the statement is not there)
// and not by the text that is there: code can be moved and reworded, and its
// mutants go with it. More than one mutant may use a mark.
//
// Where a line has several expressions and one of them is meant, the mark is
// before it: x && /*mutant:late*/ y. An argument cannot have one, as gofmt moves it
// to before the comma: use Value or Stmt.
//
// In a script or a statement that is a file (see text.go), and in one that is
// put together in Go, the mark is at the end of a line with what is meant and
// no more, which the mutant replaces:
//
//	AND expires > {now} --mutant:expired
var markPattern = regexp.MustCompile(`\bmutant:([a-z0-9-]+)`)

// At is what is wrong at the mark.
func At(mark string, do Op) Edit { return Edit{Mark: mark, Do: do} }

// An Op is what is done at a mark. In its text, WAS is what was there.
type Op struct {
	kind opKind
	text string
	cond string // of a script or a statement: it is done only where this holds as the program runs
}

type opKind int

const (
	opCond opKind = iota
	opReturn
	opValue
	opExpr
	opStmt
	opBefore
	opAfter
	opFirst
	opSwap
	opLine
)

var opNames = [...]string{"condition", "return", "assigned value", "expression", "statement", "statement", "statement", "block", "statement with one behind it", "line"}

// Cond makes the condition of the if, the for or the case on the line another.
func Cond(text string) Op { return Op{opCond, text, ""} }

// Return makes the results of the return statement others.
func Return(text string) Op { return Op{opReturn, text, ""} }

// Value makes what is assigned another: to variables, a field, or in a range.
func Value(text string) Op { return Op{opValue, text, ""} }

// Expr makes the largest expression another that is on the line as a whole, or
// that begins behind the mark.
func Expr(text string) Op { return Op{opExpr, text, ""} }

// Stmt replaces the statement.
func Stmt(text string) Op { return Op{opStmt, text, ""} }

// Delete removes the statement.
func Delete() Op { return Op{opStmt, "", ""} }

// Before has statements run before the statement.
func Before(text string) Op { return Op{opBefore, text, ""} }

// After has statements run behind the statement.
func After(text string) Op { return Op{opAfter, text, ""} }

// First has statements run at the start of the block that the line opens.
func First(text string) Op { return Op{opFirst, text, ""} }

// Swap has the next statement run before this one.
func Swap() Op { return Op{opSwap, "", ""} }

// Line replaces what is on the line before the mark.
func Line(text string) Op { return Op{opLine, text, ""} }

// If does that to a line of a script or a statement only where the condition, in Go, holds as the
// program runs. In Go itself the text of an operation can say so.
func (op Op) If(cond string) Op { op.cond = cond; return op }

// marks finds the file of each mark in the module, and in the others if it is that of a
// workspace. One that is there twice has "".
func marks(root string) (map[string]string, error) {
	files := map[string]string{}
	_, err := os.Stat(filepath.Join(root, "go.work"))
	workspace := err == nil
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, file)
		path = filepath.ToSlash(path)
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(file, "go.mod"))
			if path != "." && (strings.HasPrefix(d.Name(), ".") || other == nil && !workspace || path == "internal/mutant") {
				return filepath.SkipDir
			}
			return nil
		}
		if !isText(path) && !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range markPattern.FindAllStringSubmatch(string(text), -1) {
			if _, twice := files[m[1]]; twice {
				files[m[1]] = ""
			} else {
				files[m[1]] = path
			}
		}
		return nil
	})
	return files, err
}

// place is the path of the file that the edit changes.
func (o *Overlay) place(e Edit) (string, error) {
	all, err := o.marks()
	if err != nil {
		return "", err
	}
	file, ok := all[e.Mark]
	switch {
	case !ok:
		return "", fmt.Errorf("no file has the mark mutant:%s", e.Mark)
	case file == "":
		return "", fmt.Errorf("the mark mutant:%s is in the module twice", e.Mark)
	}
	return e.Under + file, nil
}

// at does what the edit says at its mark, and returns the text of the file with
// that.
func (s *source) edit(e Edit) (string, error) {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			m := markPattern.FindStringSubmatch(c.Text)
			if m != nil && m[1] == e.Mark {
				return s.do(e.Do, c)
			}
		}
	}
	return "", fmt.Errorf("the mark mutant:%s is not in %s", e.Mark, s.path)
}

// a span is a piece of the file, and the lines by which it is found.
type span struct {
	from, to    token.Pos // what is replaced
	first, last int
}

func (s *source) do(op Op, mark *ast.Comment) (string, error) {
	if op.cond != "" {
		return "", fmt.Errorf("a condition is for scripts and statements, and %s is none", s.path)
	}
	line := s.line(mark.Pos())
	if op.kind == opLine {
		begin := s.at(s.fset.File(mark.Pos()).LineStart(line))
		end := s.at(mark.Pos())
		indent := begin + len(s.text[begin:end]) - len(strings.TrimLeft(s.text[begin:end], "\t"))
		text := wasPattern.ReplaceAllLiteralString(op.text, strings.TrimSpace(s.text[indent:end]))
		return s.text[:indent] + text + " " + s.text[end:], nil
	}
	at, next := s.find(op, mark)
	if at == nil {
		return "", fmt.Errorf("there is no %s at the mark, in line %d of %s", opNames[op.kind], line, s.path)
	}
	from, to := s.at(at.from), s.at(at.to)
	was := s.text[from:to]
	text := wasPattern.ReplaceAllLiteralString(op.text, was)
	switch op.kind {
	case opBefore:
		text += "\n" + was
	case opAfter:
		text = was + "\n" + text
	case opFirst:
		text = "\n" + text + "\n"
	case opSwap:
		to = s.at(next.End())
		text = s.slice(next.Pos(), next.End()) + "\n" + was
	}
	return s.text[:from] + text + s.text[to:], nil
}

// find returns what the operation is for at the mark, or nil, and the statement
// behind it, if it is one.
func (s *source) find(op Op, mark *ast.Comment) (*span, ast.Stmt) {
	var all []span
	found := func(from, to, first, last token.Pos) { all = append(all, span{from, to, s.line(first), s.line(last)}) }
	next := map[token.Pos]ast.Stmt{} // the statement behind one that begins there
	behind := func(list []ast.Stmt) {
		for i, stmt := range list[:max(0, len(list)-1)] {
			next[stmt.Pos()] = list[i+1]
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			behind(n.List)
			if op.kind == opFirst {
				found(n.Lbrace+1, n.Lbrace+1, n.Lbrace, n.Lbrace)
			}
			return true // it is no statement of its own
		case *ast.CaseClause:
			behind(n.Body)
			if op.kind == opFirst {
				found(n.Colon+1, n.Colon+1, n.Colon, n.Colon)
			}
			if op.kind == opCond && len(n.List) > 0 {
				found(n.List[0].Pos(), n.List[len(n.List)-1].End(), n.Pos(), n.Colon)
			}
		case *ast.CommClause:
			behind(n.Body)
			if op.kind == opFirst {
				found(n.Colon+1, n.Colon+1, n.Colon, n.Colon)
			}
		case *ast.IfStmt:
			if op.kind == opCond {
				found(n.Cond.Pos(), n.Cond.End(), n.Pos(), n.Body.Lbrace)
			}
		case *ast.ForStmt:
			if op.kind == opCond && n.Cond != nil {
				found(n.Cond.Pos(), n.Cond.End(), n.Pos(), n.Body.Lbrace)
			}
		case *ast.ReturnStmt:
			if op.kind == opReturn && len(n.Results) > 0 {
				found(n.Results[0].Pos(), n.End(), n.Pos(), n.End())
			}
		case *ast.AssignStmt:
			if op.kind == opValue {
				found(n.Rhs[0].Pos(), n.End(), n.Pos(), n.End())
			}
		case *ast.ValueSpec:
			if op.kind == opValue && len(n.Values) > 0 {
				found(n.Values[0].Pos(), n.End(), n.Pos(), n.End())
			}
		case *ast.KeyValueExpr:
			if op.kind == opValue {
				found(n.Value.Pos(), n.End(), n.Pos(), n.End())
			}
		case *ast.RangeStmt:
			if op.kind == opValue {
				found(n.X.Pos(), n.X.End(), n.Pos(), n.Body.Lbrace)
			}
		}
		if expr, ok := n.(ast.Expr); ok && op.kind == opExpr {
			if _, pair := expr.(*ast.KeyValueExpr); !pair && s.line(n.Pos()) == s.line(n.End()) || strings.HasPrefix(mark.Text, "/*") {
				found(n.Pos(), n.End(), n.Pos(), n.End())
			}
		}
		switch stmt := n.(type) {
		case *ast.CaseClause, *ast.CommClause:
			if op.kind == opStmt {
				found(n.Pos(), n.End(), n.Pos(), n.Pos()) // it is meant only where it begins
			}
		case ast.Stmt:
			if op.kind == opStmt || op.kind == opBefore || op.kind == opAfter || op.kind == opSwap && next[stmt.Pos()] != nil {
				found(n.Pos(), n.End(), n.Pos(), n.End())
			}
		}
		return true
	})
	var at *span
	for i := range all {
		if a := &all[i]; s.better(a, at, op, s.line(mark.Pos()), mark) {
			at = a
		}
	}
	if at == nil {
		return nil, nil
	}
	return at, next[at.from]
}

var wasPattern = regexp.MustCompile(`\bWAS\b`)

// better reports whether a is meant by a mark on the line, and rather than b:
// what begins there, the whole of it, rather than what ends there, and that
// rather than what goes on there.
func (s *source) better(a, b *span, op Op, line int, mark *ast.Comment) bool {
	rank := func(a *span) int {
		switch {
		case a == nil || a.first > line || a.last < line:
			return 0
		case strings.HasPrefix(mark.Text, "/*"):
			if strings.TrimSpace(s.slice(mark.End(), max(mark.End(), a.from))) != "" || a.from < mark.End() {
				return 0
			}
			return 3
		case op.kind == opFirst:
			return 3
		case a.first == line:
			return 3
		case a.last == line:
			return 2
		}
		return 1
	}
	ra, rb := rank(a), rank(b)
	if ra != rb {
		return ra > rb
	}
	long := func(a *span) int { return int(a.to - a.from) }
	switch {
	case ra == 0:
		return false
	case ra == 1:
		return long(a) < long(b) // the innermost
	case op.kind == opFirst:
		return a.from > b.from // the last that the line opens
	case op.kind == opExpr:
		return long(a) > long(b)
	}
	return a.from < b.from // the outermost
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }
