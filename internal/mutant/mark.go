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

// A mark in the source names a place where a mutant differs. It is a comment at the end of the
// line:
//
//	if now >= deadline { //mutant:deadline
//
// Each mark exists once in the module, in any file. An edit says what is done there in terms of
// Go syntax (the condition is false, the statement is missing) and not by the text of the line.
// So code can be moved and reworded, and its mutants stay with it. Several mutants may use one
// mark.
//
// If a line has several expressions and one of them is meant, the mark is before it:
// x && /*mutant:late*/ y. An argument cannot have a mark, because gofmt moves it to before
// the comma: use Value or Stmt.
//
// In a script or a statement in a file (see text.go), and in a statement that Go code puts
// together, the mark is at the end of a line that has only what the mutant replaces:
//
//	AND expires > {now} --mutant:expired
var markPattern = regexp.MustCompile(`\bmutant:([a-z0-9-]+)`)

// At returns an edit that does this at the mark.
func At(mark string, do Op) Edit { return Edit{Mark: mark, Do: do} }

// An Op is what an edit does at a mark. In its text, WAS stands for the original text.
type Op struct {
	kind opKind
	text string
	cond string // for a script or a statement: a Go condition, at run time, for the edit to apply
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

// Cond replaces the condition of the if, the for or the case on the line.
func Cond(text string) Op { return Op{opCond, text, ""} }

// Return replaces the results of the return statement.
func Return(text string) Op { return Op{opReturn, text, ""} }

// Value replaces the assigned value: of variables, of a field, or of a range.
func Value(text string) Op { return Op{opValue, text, ""} }

// Expr replaces the largest expression that is entirely on the line, or that begins after the
// mark.
func Expr(text string) Op { return Op{opExpr, text, ""} }

// Stmt replaces the statement.
func Stmt(text string) Op { return Op{opStmt, text, ""} }

// Delete removes the statement.
func Delete() Op { return Op{opStmt, "", ""} }

// Before runs statements before the statement.
func Before(text string) Op { return Op{opBefore, text, ""} }

// After runs statements after the statement.
func After(text string) Op { return Op{opAfter, text, ""} }

// First runs statements at the start of the block that the line opens.
func First(text string) Op { return Op{opFirst, text, ""} }

// Swap runs the next statement before this one.
func Swap() Op { return Op{opSwap, "", ""} }

// Line replaces what is on the line before the mark.
func Line(text string) Op { return Op{opLine, text, ""} }

// If applies op to a line of a script or a statement only where the condition, in Go, is true
// at run time. In Go code, the text of the Op can contain the condition.
func (op Op) If(cond string) Op { op.cond = cond; return op }

// marks returns the file of each mark in the module, and in all modules if there is a
// workspace. For a mark that exists twice it is "".
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

// place returns the path of the file that the edit changes.
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

// edit applies e at its mark, and returns the new text of the file.
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

// A span is a piece of the file, and the lines by which a mark finds it.
type span struct {
	from, to    token.Pos // the replaced piece
	first, last int
}

func (s *source) do(op Op, mark *ast.Comment) (string, error) {
	if op.cond != "" {
		return "", fmt.Errorf("a condition is for scripts and statements, and %s is neither", s.path)
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

// find returns the span that the operation applies to at the mark, or nil, and the statement
// after it, if there is one.
func (s *source) find(op Op, mark *ast.Comment) (*span, ast.Stmt) {
	var all []span
	found := func(from, to, first, last token.Pos) { all = append(all, span{from, to, s.line(first), s.line(last)}) }
	next := map[token.Pos]ast.Stmt{} // the next statement, by the position of a statement
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
			return true // a block is not a statement of its own here
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
				found(n.Pos(), n.End(), n.Pos(), n.Pos()) // matches only where it begins
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

// better reports whether a mark on the line means a, rather than b. A span that begins on the
// line is better than one that ends there, and that is better than one that only crosses it. Of
// those that begin there, the outermost is best.
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
		return a.from > b.from // the last block that the line opens
	case op.kind == opExpr:
		return long(a) > long(b)
	}
	return a.from < b.from // the outermost
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }
