package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written writes files below a directory.
func written(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What is wrong on one platform alone is found there, in tests too, whatever
// platform this is.
func TestWhatIsWrongOnOnePlatformIsFoundThere(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, map[string]string{
		"go.mod":            "module sample\n\ngo 1.26\n",
		"sample.go":         "package sample\n\nvar N = size\n",
		"size_windows.go":   "package sample\n\nconst size = \"windows\" + 1\n",
		"size_freebsd.go":   "package sample\n\nconst size = 1\n",
		"size_linux.go":     "package sample\n\nconst size = 1\n",
		"size_darwin.go":    "package sample\n\nimport \"sync\"\n\nconst size = 1\n\nfunc Copy(m *sync.Mutex) { n := *m; _ = &n }\n",
		"on_linux_arm64.go": "package sample\n\nvar _ = missing\n",
		"on_arm64_test.go":  "package sample\n\nvar _ = neither\n",
		"other/other.go":    "package other\n\nimport \"sample\"\n\nvar N = sample.N\n",
	})
	t.Chdir(dir)
	for platform, want := range map[string]string{
		"linux/amd64":   "",
		"linux/arm64":   "undefined: missing",
		"freebsd/arm64": "undefined: neither",
		"windows/amd64": "mismatched types",
		"darwin/amd64":  "copies lock value",
		"plan9":         "not of the form GOOS/GOARCH",
	} {
		found := strings.Join(problems(platform), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("%s: found %q, want %q", platform, found, want)
		}
	}
}
