package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository with a commit of two modules, and changes to its directory. It returns the commit.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // the cache goes there
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("GOCACHE", must(exec.Command("go", "env", "GOCACHE").Output()))
	t.Chdir(t.TempDir())
	written(t, files)
	must(nil, exec.Command("git", "init", "-q").Run())
	return commit(t)
}

func must(out []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T) string {
	t.Helper()
	must(exec.Command("git", "add", "-A").Output())
	must(exec.Command("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one").Output())
	return must(exec.Command("git", "rev-parse", "HEAD").Output())
}

func written(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var sample = map[string]string{
	"go.work":         "go 1.26.0\n\nuse (\n\t.\n\t./a\n)\n",
	"go.mod":          "module example.com/sample\n\ngo 1.26.0\n",
	"sample.go":       "package sample\n\nimport \"example.com/sample/internal/x\"\n\nfunc F() {}\n\ntype T struct{ N int }\n\nvar _ = x.N\n",
	"a/go.mod":        "module example.com/sample/a\n\ngo 1.26.0\n",
	"a/a.go":          "package a\n\nfunc G(int) {}\n",
	"a/new/new.go":    "package fresh\n\nconst N = 1\n",
	"internal/x/x.go": "package x\n\nconst N = 1\n",
	"cmd/main.go":     "package main\n\nfunc Exported() {}\n\nfunc main() {}\n",
}

func TestABreakingChangeIsFoundInEachModule(t *testing.T) {
	since := repository(t, sample)
	policyText := "Names are those of commit `" + since[:12] + "`.\n\nNot covered: `a/new` and `b`.\n"
	written(t, map[string]string{policy: policyText})
	fails := func(want ...string) {
		t.Helper()
		err := run(nil)
		if err == nil {
			t.Fatalf("no change was found, want %q", want)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("got: %v\nwant %q", err, w)
			}
		}
	}
	recorded := func() string {
		t.Helper()
		if err := run([]string{"-w"}); err != nil {
			t.Fatal(err)
		}
		if err := run(nil); err != nil {
			t.Fatal(err)
		}
		return must(os.ReadFile(record))
	}
	fails(record) // the file does not exist
	if got := recorded(); strings.Contains(got, "example.com") {
		t.Errorf("nothing has changed, but the record has\n%s", got)
	}

	written(t, map[string]string{
		"sample.go":    "package sample\n\ntype T struct{ M int }\n\nfunc New() {}\n",
		"a/a.go":       "package a\n\nfunc G(string) {}\n",
		"a/new/new.go": "package fresh\n\nconst M = 1\n",
		"cmd/main.go":  "package main\n\nfunc main() {}\n",
	})
	if err := os.RemoveAll("internal"); err != nil {
		t.Fatal(err)
	}
	fails("new: example.com/sample\n", "new: - F: removed", "new: - T.N: removed", "new: example.com/sample/a\n", "new: - G: changed from func(int) to func(string)", "CHANGELOG.md")
	got := recorded()
	for _, never := range []string{"internal", "new", "cmd", "Exported", "New"} {
		if strings.Contains(got, never) {
			t.Errorf("the record has %s, which is not covered or breaks nothing:\n%s", never, got)
		}
	}

	// After the change is undone, its record is superfluous.
	written(t, sample)
	fails("no more: - F: removed")

	// The comparison is with a tag, if there is one, and not with the commit.
	commit(t)
	must(exec.Command("git", "tag", "v0.1.0").Output())
	written(t, map[string]string{"a/a.go": "package a\n"})
	if got := recorded(); !strings.Contains(got, "written for v0.1.0") || strings.Contains(got, "- F") || !strings.Contains(got, "- G: removed") {
		t.Error(got)
	}
}

func TestAnUnknownBaseCommitIsReported(t *testing.T) {
	repository(t, sample)
	written(t, map[string]string{policy: "those of commit `0123456789ab`"})
	if err := run(nil); err == nil || !strings.Contains(err.Error(), "0123456789ab is not here") {
		t.Error(err)
	}
}

// A package that was removed breaks its importers.
func TestAPackageThatIsGoneIsFound(t *testing.T) {
	since := repository(t, sample)
	written(t, map[string]string{policy: "those of commit `" + since + "`"})
	if err := os.RemoveAll("a/new"); err != nil {
		t.Fatal(err)
	}
	if err := run(nil); err == nil || !strings.Contains(err.Error(), "new: example.com/sample/a/new\nnew: - the package is gone") {
		t.Error(err)
	}
}
