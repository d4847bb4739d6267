package main

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// vague are names that do not say what a package is for.
var vague = []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}

// names reports packages that have such a name in their clause or in their path.
var names = &analysis.Analyzer{
	Name: "names",
	Doc:  "report packages with a name that says nothing of what they hold",
	Run: func(p *analysis.Pass) (any, error) {
		for _, name := range []string{p.Pkg.Name(), path.Base(p.Pkg.Path())} {
			name = strings.TrimSuffix(name, "_test")
			if slices.Contains(vague, name) && len(p.Files) > 0 {
				p.Reportf(p.Files[0].Name.Pos(), "the package name %s says nothing: name it for what it holds", name)
				break
			}
		}
		return nil, nil
	},
}
