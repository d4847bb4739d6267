package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
)

// Each exported name without a doc comment is found, in a file of any platform. A name that others cannot use is not
// reported.
func TestAnExportedNameWithoutADocCommentIsFound(t *testing.T) {
	was := slices.Clone(vet)
	vet = append([]*analysis.Analyzer{}, docs)
	defer func() { vet = was }()
	dir := t.TempDir()
	written(t, dir, map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"sample.go": `// Package sample is one.
package sample

func Bad1() {}

// Good does.
func Good() {}

func private() { var Local int; _ = Local }

// T is a type.
type T struct {
	Bad2 int
	Good int // that many
	// Two of them.
	A, B   int
	hidden int
}

func (T) Bad3() {}

func (*list[E]) Good() {}

type list[E any] struct{ Field E }

// List is one.
type List[E any] struct{}

func (*List[E]) Bad4() {}

type Bad5 int

// Kinds.
const (
	One = iota
	Two
)

const (
	Three = iota // three
	Bad6
)

var Bad7, bad8 int

// I is an interface.
type I interface {
	Bad9()
	// Good does.
	Good()
	private()
}

var _, _ = private, T{}.hidden
`,
		"sample_windows.go":  "package sample\n\nfunc Bad10() {}\n",
		"sample_test.go":     "package sample\n\nfunc Good2() {}\n",
		"x_test.go":          "package sample_test\n\nfunc Good3() {}\n",
		"none/none.go":       "package none\n",
		"internal/in/in.go":  "package in\n\nfunc Good() {}\n",
		"cmd/main.go":        "package main\n\nfunc Good() {}\n\nfunc main() {}\n",
		"testonly/x_test.go": "package testonly\n\nfunc Good() {}\n",
	})
	t.Chdir(dir)
	var found []string
	for _, problem := range problems("windows/amd64") {
		_, text, _ := strings.Cut(problem, ": ")
		found = append(found, strings.TrimSuffix(text, " is exported and has no doc comment"))
	}
	slices.Sort(found)
	want := "Bad1 Bad10 Bad2 Bad3 Bad4 Bad5 Bad6 Bad7 Bad9 the package has no doc comment"
	if got := strings.Join(found, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
