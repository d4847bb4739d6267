package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// literals are the texts in the Go files of the tree, of which the skipped are those that a call of Skip or Skipf has
// as its first argument. Those by which a script is skipped are in both.
type literals struct{ all, skipped map[string]string } // a text, and where

func readLiterals(t *testing.T, root string) literals {
	t.Helper()
	found := literals{map[string]string{}, map[string]string{}}
	text := func(n ast.Node) (string, bool) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(lit.Value)
		return strings.NewReplacer("%q", `"x"`, "%s", "cgroup").Replace(s), err == nil
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") && path != root
		switch {
		case err != nil || d.IsDir() && hidden:
			return cmp.Or(err, filepath.SkipDir)
		case d.IsDir() && path == filepath.Join(root, "store/queue"): // its tests skip steps of rapid, not tests
			return filepath.SkipDir
		case filepath.Ext(path) == ".txtar":
			script, err := os.ReadFile(path)
			for _, m := range scriptSkips.FindAllStringSubmatch(string(script), -1) {
				found.all[m[1]], found.skipped[m[1]] = path, path
			}
			return err
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasPrefix(path, filepath.Join(root, "internal/runtests")):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := text(n); ok {
				found.all[s] = path
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if name, ok := call.Fun.(*ast.SelectorExpr); ok && (name.Sel.Name == "Skip" || name.Sel.Name == "Skipf") {
				if s, ok := text(call.Args[0]); ok {
					found.skipped[s] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// scriptSkips are the lines by which a script of testscript is skipped.
var scriptSkips = regexp.MustCompile(`(?m)^(?:\[.*\] )?skip '(.*)'$`)

// mustFail are the reasons for which no test may be skipped in a strict run.
var mustFail = []*regexp.Regexp{
	regexp.MustCompile(`is not installed: `),                         // a server or a tool, which the scripts install
	regexp.MustCompile(`^this test holds ten thousand leases for `),  // with -short
	regexp.MustCompile(`^a coarse store waits for TTLs of seconds$`), // with -short
	regexp.MustCompile(`^the tests do not start servers on Windows$|^the worker in shell needs Linux$|^this system has no screens$|^hold --fd is for Linux$`),
	regexp.MustCompile(`^there is no link to this server$`), // each has one
	regexp.MustCompile(`^the server keeps an idle record for longer$`),
}

// A reason that was worded anew, here or at the test, makes a strict run fail on the machines where the test is
// skipped, which the one at hand may not be.
func TestEachReasonOnTheListIsThatOfATest(t *testing.T) {
	found := readLiterals(t, "../..")
	for _, e := range exceptions {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(found.all)), e.reason.MatchString) {
			t.Errorf("no text in the tree matches %q", e.reason)
		}
	}
	for reason, path := range found.skipped {
		fails := slices.ContainsFunc(mustFail, func(r *regexp.Regexp) bool { return r.MatchString(reason) })
		if allowed := (skip{reason: reason}).allowed() != ""; allowed == fails {
			t.Errorf("%s: skipped for %q: allowed is %t, must fail is %t", path, reason, allowed, fails)
		}
	}
}
