package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module of one package, in a directory of its name, and one
// file of tests, and returns its directory. Without code it has no package.
func module(t *testing.T, code, test string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module example.org/x\n\ngo 1.26\n"}
	clause, _, _ := strings.Cut(code, ";")
	name := strings.TrimPrefix(clause, "package ")
	if code != "" {
		imports := "import \"testing\"\n"
		if strings.Contains(test, "os.") {
			imports += "import \"os\"\n"
		}
		files[filepath.Join(name, "x.go")] = code + "\n"
		files[filepath.Join(name, "x_test.go")] = clause + "\n" + imports + test + "\n"
	}
	if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
