package main

import (
	"strings"
	"testing"
)

// A package whose name says nothing is found, by its clause or its directory, even if it has only tests. A good name
// that contains such a word is not reported.
func TestAPackageNameThatSaysNothingIsFound(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, map[string]string{
		"go.mod":               "module sample\n\ngo 1.26\n",
		"util/x.go":            "package rows\n",
		"rows/x.go":            "package helpers\n",
		"common/x_test.go":     "package common_test\n",
		"commons/x.go":         "package commons\n",
		"redisutil/x.go":       "package redisutil\n",
		"util/inside/x.go":     "package inside\n",
		"commons/x_test.go":    "package commons_test\n",
		"redisutil/x2_test.go": "package redisutil\n",
	})
	t.Chdir(dir)
	found := problems("linux/amd64")
	for i, want := range []string{"common/x_test.go:1:9: the package name common says", "rows/x.go:1:9: the package name helpers says", "util/x.go:1:9: the package name util says"} {
		if len(found) != 3 || !strings.Contains(found[i], want) {
			t.Fatalf("got\n%s\nwant %q in line %d of 3", strings.Join(found, "\n"), want, i+1)
		}
	}
}
