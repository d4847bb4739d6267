package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestEveryErrorOfTheClosedSetHasItsExitCode(t *testing.T) {
	want := map[string]struct {
		err  error
		code int
	}{
		"ErrHeld":        {holdfast.ErrHeld, 75},
		"ErrLost":        {holdfast.ErrLost, 76},
		"ErrReleased":    {holdfast.ErrReleased, 70},
		"ErrClosed":      {holdfast.ErrClosed, 70},
		"ErrNotRun":      {holdfast.ErrNotRun, 70},
		"ErrDeadlock":    {holdfast.ErrDeadlock, 64},
		"ErrMismatch":    {holdfast.ErrMismatch, 64},
		"ErrUnsupported": {holdfast.ErrUnsupported, 64},
		"ErrInvalid":     {holdfast.ErrInvalid, 64},
		"ErrUnavailable": {holdfast.ErrUnavailable, 69},
		"ErrDenied":      {holdfast.ErrDenied, 77},
		"ErrCorrupt":     {holdfast.ErrCorrupt, 70},
	}
	declared := errorsOfTheRoot(t)
	if len(declared) == 0 {
		t.Fatal("found no errors in the root package")
	}
	for _, name := range declared {
		w, ok := want[name]
		if !ok {
			t.Errorf("holdfast.%s is new: give it an exit code in exit.go, here and in docs/operate.md", name)
			continue
		}
		listed := false
		for _, c := range codes {
			listed = listed || c.err == w.err
		}
		if !listed {
			t.Errorf("holdfast.%s is not in the table", name)
		}
		if got := codeOf(fmt.Errorf("lock %q: %w", "x", w.err)); got != w.code {
			t.Errorf("holdfast.%s: exit code %d, want %d", name, got, w.code)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("holdfast.%s no longer exists: remove it here", name)
	}
}

// errorsOfTheRoot are the names of the exported error values of the root
// package, read from its source, as a program cannot list the variables of a
// package.
func errorsOfTheRoot(t *testing.T) (names []string) {
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
