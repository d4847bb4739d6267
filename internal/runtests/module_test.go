package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module of one package and one test, and returns its
// directory. Without code it has no package.
func module(t *testing.T, code, test string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module example.org/x\n\ngo 1.26\n"}
	if code != "" {
		imports := "import \"testing\"\n"
		if strings.Contains(test, "os.") {
			imports += "import \"os\"\n"
		}
		files["x.go"] = code + "\n"
		files["x_test.go"] = "package x\n" + imports + test + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
