// Command platforms compiles nothing. For each GOOS/GOARCH given, it type-checks all packages of the workspace, or of
// the module if there is no workspace, with their tests and all imports; packages with files behind a build tag also
// with that tag, on one platform. It runs the analyses of go vet on them, and three more: that each package imports
// only what it may (imports.go), that no package has a meaningless name (names.go), and that public names have a doc
// comment (docs.go).
//
//	platforms windows/amd64 darwin/arm64 ...
//
// go vet does the same, but first compiles every dependency for that platform, which takes
// minutes for each.
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
	debug.SetGCPercent(400) // it uses about a gigabyte, and half the time
	if err := guardImports(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	vet = append(vet, docs)
	found := map[string]bool{}
	for _, p := range os.Args[1:] {
		for _, problem := range problems(p) {
			if !found[problem] { // otherwise it was reported for another platform
				fmt.Printf("%s: %s\n", p, problem)
			}
			found[problem] = true
		}
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// everything returns the patterns of the packages to check: all modules of the workspace, if there is one. The bench
// is for Unix-like systems only.
func everything(goos string) (patterns []string) {
	text, err := os.ReadFile("go.work")
	if err != nil {
		return []string{"./..."}
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return []string{"work"} // loading it reports what is wrong
	}
	for _, use := range work.Use {
		if use.Path != "./bench" || goos != "windows" {
			patterns = append(patterns, strings.TrimSuffix(use.Path, "/")+"/...")
		}
	}
	return patterns
}

// tagged are the build tags for the command without drivers, or with another one.
var tagged = []string{"holdfast_lean", "holdfast_lean,holdfast_files", "holdfast_cloud"}

// withTags are the patterns of the packages with files that are built only with such a tag.
var withTags = []string{"./cmd/holdfast/...", "./open/all/...", "./prove/..."}

// taggedOn is the platform on which the tags are checked: they take two thirds as long as everything without tags,
// and go vet checks them on this machine.
const taggedOn = "windows/amd64"

// mode loads each package from source, so that nothing is compiled.
var mode = packages.LoadAllSyntax

// problems returns what is wrong on a platform: packages that cannot be built, or else what the
// analyses find in the module's packages, with and without tags.
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
	return slices.Compact(all) // a file is in its package, in the package with tests, and in the package with tags
}

// build returns what is wrong with the packages on a platform with these tags.
func build(platform, tags string, patterns []string) (all []string) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return []string{"not of the form GOOS/GOARCH"}
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode:       mode | packages.NeedModule,
		Tests:      tags == "", // tests have no such files
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
