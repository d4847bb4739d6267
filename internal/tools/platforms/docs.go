package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// docs reports public packages, and their exported names, methods and fields, that have no doc
// comment.
var docs = &analysis.Analyzer{
	Name: "docs",
	Doc:  "report exported names without a doc comment",
	Run: func(p *analysis.Pass) (any, error) {
		if p.Pkg.Name() == "main" || strings.HasSuffix(p.Pkg.Path(), "_test") || strings.HasSuffix(p.Pkg.Path(), ".test") || slices.Contains(strings.Split(p.Pkg.Path(), "/"), "internal") {
			return nil, nil
		}
		documented, at := false, token.NoPos
		for _, f := range p.Files {
			if strings.HasSuffix(p.Fset.Position(f.Pos()).Filename, "_test.go") {
				continue
			}
			if at == token.NoPos {
				at = f.Name.Pos()
			}
			documented = documented || says(f.Doc)
			for _, d := range f.Decls {
				undocumented(d, func(name *ast.Ident) {
					p.Reportf(name.Pos(), "%s is exported and has no doc comment", name.Name)
				})
			}
		}
		if !documented && at != token.NoPos {
			p.Reportf(at, "the package has no doc comment")
		}
		return nil, nil
	},
}

// says reports whether one of the comments is not empty.
func says(comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil && strings.TrimSpace(c.Text()) != "" })
}

// undocumented reports the exported names of a declaration that have no comment. A comment on a
// group of constants or variables counts for all of them.
func undocumented(d ast.Decl, report func(*ast.Ident)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && !says(d.Doc) && (d.Recv == nil || exportedType(d.Recv.List[0].Type)) {
			report(d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && !says(d.Doc, s.Doc, s.Comment) {
						report(name)
					}
				}
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				if !says(d.Doc, s.Doc, s.Comment) {
					report(s.Name)
				}
				for _, f := range members(s.Type) {
					for _, name := range f.Names {
						if name.IsExported() && !says(f.Doc, f.Comment) {
							report(name)
						}
					}
				}
			}
		}
	}
}

// members returns the fields of a struct or the methods of an interface.
func members(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// exportedType reports whether a receiver is of an exported type.
func exportedType(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.StarExpr:
		return exportedType(t.X)
	case *ast.IndexExpr:
		return exportedType(t.X)
	case *ast.IndexListExpr:
		return exportedType(t.X)
	case *ast.Ident:
		return t.IsExported()
	}
	return false
}
