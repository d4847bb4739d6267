package behaviours

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var nameOfTest = regexp.MustCompile(`\bTest[A-Z]\w*`)

// missing returns the names of tests in a text that no test begins with. go test -run takes the
// beginning of a name, and is content if nothing matches.
func (found *tests) missing(text string) (names []string) {
	for _, name := range nameOfTest.FindAllString(text, -1) {
		known := false
		for is := range found.funcs {
			known = known || strings.HasPrefix(is, name)
		}
		if !known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ofReaders are tests in code that a page shows its readers to write.
var ofReaders = []string{"TestTheTestsCatchEachMutantOfExample", "TestOurLock"}

// A script that runs a test which was renamed runs nothing, and passes.
func TestEachTestThatScriptsAndPagesNameExists(t *testing.T) {
	found := findTests(t, "../..")
	texts := []string{"../../Makefile", "../../.ci/run", "../../README.md", "../../CONTRIBUTING.md"}
	for _, pattern := range []string{"../../scripts/*", "../../docs/*.md", "../../docs/decisions/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 5 {
			t.Fatal(pattern, len(files), err)
		}
		texts = append(texts, files...)
	}
	for _, file := range texts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found.missing(string(text)) {
			if slices.Contains(ofReaders, name) {
				continue
			}
			t.Errorf("%s names %s, and there is no such test", file, name)
		}
	}
	if got := found.missing("go test -run 'TestEachTestThat|TestGone/sub'"); !slices.Equal(got, []string{"TestGone"}) {
		t.Errorf("missing are %q, want TestGone alone", got)
	}
}
