package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes a repository with a root and a module a that needs the root, and changes to its directory.
func repository(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.work":   "go 1.26.0\n\nuse (\n\t.\n\t./a\n)\n\nreplace (\n\t" + own + " v0.0.0 => ./\n\t" + own + "/a v0.0.0 => ./a\n)\n",
		"go.mod":    "module " + own + "\n\ngo 1.26.0\n",
		"root.go":   "package holdfast\n\nconst N = 1\n",
		"a/go.mod":  "module " + own + "/a\n\ngo 1.26.0\n\nrequire " + own + " v0.0.0\n",
		"a/a.go":    "package a\n\nimport \"" + own + "\"\n\nconst N = holdfast.N\n",
		"bench/x":   "",
		".x/go.mod": "module hidden\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	t.Chdir(dir)
}

func TestAnUntidyGoModIsFoundAndFixed(t *testing.T) {
	repository(t)
	if err := run([]string{"tidy", "-diff"}); err != nil {
		t.Fatal(err)
	}
	const file = "a/go.mod"
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"an extra requirement":  string(was) + "\nrequire golang.org/x/sys v0.20.0\n",
		"a missing requirement": strings.Replace(string(was), "require "+own+" v0.0.0\n", "", 1),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"tidy", "-diff"}); err == nil || !strings.Contains(err.Error(), "in: a") {
			t.Errorf("%s: got %v, want an error that names the module", what, err)
		}
		if err := run([]string{"tidy"}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if is, err := os.ReadFile(file); err != nil || string(is) != string(was) {
			t.Errorf("%s: got\n%s (%v), want\n%s", what, is, err, was)
		}
	}
}

func TestAGoModWithAReplaceIsRefused(t *testing.T) {
	repository(t)
	was, err := os.ReadFile("a/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("a/go.mod", append(was, "replace golang.org/x/sys => golang.org/x/sys v0.20.0\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tidy", "-diff"}, {"tidy"}, {"tag", "v1.2.3"}} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), own+"/a replaces golang.org/x/sys") {
			t.Errorf("%q: got %v, want an error that names the module and what it replaces", args, err)
		}
	}
}

func TestAWrongGoWorkSumIsFixed(t *testing.T) {
	repository(t)
	const junk = "golang.org/x/sys v0.1.0/go.mod h1:oPkhp1MJrh7nUepCBck5+mAzfO9JrbApNNgaTdGDITg=\n"
	if err := os.WriteFile("go.work.sum", []byte(junk), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"tidy", "-diff"}); err == nil || !strings.Contains(err.Error(), "go.work.sum") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	for _, args := range [][]string{{"tidy"}, {"tidy", "-diff"}} {
		if err := run(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	if is, err := os.ReadFile("go.work.sum"); err != nil || len(is) > 0 {
		t.Errorf("got %q (%v), want an empty file", is, err)
	}
}

// A release names all modules by its version, and tags each of them.
func TestAllModulesAreTaggedAlike(t *testing.T) {
	repository(t)
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if err := os.WriteFile("bench/go.mod", []byte("module "+own+"/bench\n\ngo 1.26.0\n"), 0o600); err != nil { // bench is not published
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", "go.work", "go.mod", "root.go", "a", "bench")
	git("commit", "-qm", "first")
	for _, name := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+name+"_NAME", "a")
		t.Setenv("GIT_"+name+"_EMAIL", "a@example.org")
	}
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	var dry bytes.Buffer
	if err := tag(&dry, all, "v1.2.3", false); err != nil || git("tag") != "" || git("status", "--porcelain", "-uno") != "" {
		t.Fatalf("a dry run: got %v, tags %q", err, git("tag"))
	}
	if want := `in a/go.mod go.work: v0.0.0 becomes v1.2.3
git commit -m Release v1.2.3 -- a/go.mod go.work
git tag -a -m holdfast v1.2.3 v1.2.3
git tag -a -m holdfast v1.2.3 a/v1.2.3
push them in one go: git push --atomic origin HEAD v1.2.3 a/v1.2.3
`; dry.String() != want {
		t.Errorf("a dry run prints\n%s, want\n%s", &dry, want)
	}
	if err := run([]string{"tag", "-do", "v1.2.3"}); err == nil {
		t.Fatal("tagged, although there are uncommitted files")
	}
	if err := os.RemoveAll(".x"); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"tag", "-do", "v1.2.3"}); err != nil {
		t.Fatal(err)
	}
	if tags := strings.Fields(git("tag")); !slices.Equal(tags, []string{"a/v1.2.3", "v1.2.3"}) || git("rev-parse", "v1.2.3^{}") != git("rev-parse", "HEAD") {
		t.Errorf("got tags %q", tags)
	}
	if mod, err := os.ReadFile("a/go.mod"); err != nil || !strings.Contains(string(mod), own+" v1.2.3\n") {
		t.Errorf("%s (%v)", mod, err)
	}
	if err := run([]string{"tidy", "-diff"}); err != nil {
		t.Error(err)
	}
	build := exec.Command("go", "build", "work")
	build.Env = append(os.Environ(), "GOWORK=") // find go.work, whatever this test runs with
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the workspace: %v\n%s", err, out)
	}
}
