// Command platforms compiles nothing: it type-checks all packages of the
// workspace, or else of the module, their tests and all that they import, for each GOOS/GOARCH that it is
// given, what has files behind a build tag also with the tag for one of them, and runs the analyses of go vet on them, and three more: that each imports only
// what it may (imports.go), that none has a name that says nothing (names.go), and that what
// others can use has a doc comment (docs.go).
//
//	platforms windows/amd64 darwin/arm64 ...
//
// go vet does the same after it has compiled every dependency for that
// platform, which takes minutes for each.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func main() {
	debug.SetGCPercent(400) // it uses a gigabyte or so, and half the time
	if err := guardImports(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	vet = append(vet, docs)
	found := map[string]bool{}
	for _, p := range os.Args[1:] {
		for _, problem := range problems(p) {
			if !found[problem] { // else it was told of another platform
				fmt.Printf("%s: %s\n", p, problem)
			}
			found[problem] = true
		}
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// everything is the patterns of what is looked at: all modules of the workspace, where there is one. The bench is for
// systems of the kind of Unix.
func everything(goos string) (patterns []string) {
	text, err := os.ReadFile("go.work")
	if err != nil {
		return []string{"./..."}
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return []string{"work"} // which says what is wrong
	}
	for _, use := range work.Use {
		if use.Path != "./bench" || goos != "windows" {
			patterns = append(patterns, strings.TrimSuffix(use.Path, "/")+"/...")
		}
	}
	return patterns
}

// tagged are the tags by which the command is built without drivers, or with another.
var tagged = []string{"holdfast_lean", "holdfast_lean,holdfast_files", "holdfast_s3"}

// withTags are the patterns of the packages that have files which are there only with such a tag.
var withTags = []string{"./cmd/holdfast/...", "./open/all/...", "./prove/..."}

// taggedOn is the platform on which the tags are tried: they take two thirds as long as all without tags, and go vet tries them
// on this machine.
const taggedOn = "windows/amd64"

// mode is what is loaded of each package: all from the source, so that nothing is compiled.
var mode = packages.LoadAllSyntax

// problems is what is wrong on a platform: that packages cannot be built, or
// else what vet finds in those of the module, and in those that tags change.
func problems(platform string) (all []string) {
	goos, _, _ := strings.Cut(platform, "/")
	patterns := everything(goos)
	all = build(platform, "", patterns)
	if has := slices.DeleteFunc(slices.Clone(withTags), func(p string) bool { return !slices.Contains(patterns, p) }); platform == taggedOn && len(has) > 0 {
		for _, tags := range tagged {
			all = append(all, build(platform, tags, has)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all) // a file is in a package, in that with its tests, and in it with tags
}

// build is what is wrong with packages that are built for a platform with tags.
func build(platform, tags string, patterns []string) (all []string) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return []string{"not of the form GOOS/GOARCH"}
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode:       mode | packages.NeedModule,
		Tests:      tags == "", // which have no such files
		BuildFlags: []string{"-tags=" + tags},
		Env:        append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		return []string{err.Error()}
	}
	if len(pkgs) == 0 {
		return []string{"no packages here"}
	}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			all = append(all, err.Error())
		}
	})
	if len(all) > 0 {
		return all
	}
	graph, err := checker.Analyze(vet, pkgs, nil)
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range graph.Roots {
		if a.Err != nil {
			all = append(all, fmt.Sprintf("%s of %s: %v", a.Analyzer, a.Package, a.Err))
		}
		for _, d := range a.Diagnostics {
			all = append(all, fmt.Sprintf("%s: %s", a.Package.Fset.Position(d.Pos), d.Message))
		}
	}
	return all
}
