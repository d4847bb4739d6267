package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/OpenPeeDeeP/depguard/v2"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/copylock"
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

// An error on only one platform is found there, in tests too, on whatever platform this runs.
func TestAnErrorOnOnePlatformIsFoundThere(t *testing.T) {
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
			t.Errorf("%s: got %q, want %q", platform, found, want)
		}
	}
}

// An error in a module below the root, or a forbidden import there, is found where go.work names that module.
func TestAnErrorInANestedModuleIsFound(t *testing.T) {
	dir := t.TempDir()
	require := "\nrequire " + own + " v0.0.0\n\nreplace " + own + " => ../\n"
	written(t, dir, map[string]string{
		"go.work":                 "go 1.26\n\nuse (\n\t.\n\t./bench\n\t./pgstore\n\t./prove\n\t./redisstore\n)\n",
		"go.mod":                  "module " + own + "\n\ngo 1.26\n",
		"store/store.go":          "package store\n",
		"guard/guard.go":          "package guard\n",
		"bench/go.mod":            "module " + own + "/bench\n\ngo 1.26\n",
		"bench/bench.go":          "package main\n\nfunc main() { missingInBench() }\n",
		"pgstore/go.mod":          "module " + own + "/pgstore\n\ngo 1.26\n" + require,
		"pgstore/pg.go":           "package pgstore\n\nimport (\n\t_ \"" + own + "/guard\"\n\t_ \"" + own + "/store\"\n)\n",
		"redisstore/go.mod":       "module " + own + "/redisstore\n\ngo 1.26\n" + require,
		"redisstore/redis.go":     "package redisstore\n\nimport \"sync\"\n\nfunc Copy(m *sync.Mutex) { n := *m; _ = &n }\n",
		"redisstore/x_darwin.go":  "package redisstore\n\nvar _ = missing\n",
		"prove/go.mod":            "module " + own + "/prove\n\ngo 1.26\n",
		"prove/lean.go":           "//go:build holdfast_lean\n\npackage prove\n\nvar _ = missingInLean\n",
		"prove/files.go":          "//go:build holdfast_files\n\npackage prove\n\nvar _ = missingInFiles\n",
		"prove/prove.go":          "package prove\n",
		"redisstore/in/x_test.go": "package in\n\nimport \"sync\"\n\nfunc Copy(m *sync.Mutex) { n := *m; _ = &n }\n",
	})
	t.Chdir(dir)
	t.Setenv("GOWORK", "") // find go.work, whatever this test runs with
	a, err := depguard.NewAnalyzer(imports(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func(was []*analysis.Analyzer) { vet = was }(vet)
	vet = []*analysis.Analyzer{a, copylock.Analyzer}
	for platform, want := range map[string][]string{
		"windows/amd64": {"redis.go:5:33: assignment copies lock value", "x_test.go:5:33: assignment copies lock value", "pg.go:4:2: import '" + own + "/guard' is not allowed", "undefined: missingInLean", "undefined: missingInFiles"},
		"darwin/arm64":  {"undefined: missing", "undefined: missingInBench"},
	} {
		found := problems(platform)
		for _, says := range want {
			if !strings.Contains(strings.Join(found, "\n"), says) {
				t.Errorf("%s: %q is missing in\n%s", platform, says, strings.Join(found, "\n"))
			}
		}
		if platform == "windows/amd64" && len(found) != len(want) {
			t.Errorf("%s: got %d, want %d:\n%s", platform, len(found), len(want), strings.Join(found, "\n"))
		}
	}
}
