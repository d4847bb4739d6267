package usecases_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each block of Go on docs/use-cases.md is a part of usecases_test.go, and each example there is on the
// page once. So what the page shows is compiled and run.
func TestCodeOfThePageIsTheCodeThatRuns(t *testing.T) {
	page, err := os.ReadFile("../use-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("usecases_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	shown := map[string]int{}
	name := regexp.MustCompile(`(?m)^func (Example_\w+)\(\) \{$`)
	for _, block := range blocks {
		if !strings.Contains(string(source), "\n"+block[1]) {
			t.Errorf("this is not in usecases_test.go:\n%s", block[1])
		}
		for _, m := range name.FindAllStringSubmatch(block[1], -1) {
			shown[m[1]]++
		}
	}
	examples := name.FindAllStringSubmatch(string(source), -1)
	if len(examples) < 15 {
		t.Fatalf("found %d examples, want at least 15", len(examples))
	}
	for _, m := range examples {
		if shown[m[1]] != 1 {
			t.Errorf("%s is %d times on the page, want once", m[1], shown[m[1]])
		}
	}
}

// The program of the README runs as it stands, and README.zh-CN.md has the same, but for the comments.
func TestProgramOfTheReadmeRuns(t *testing.T) {
	program := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")
	comment := regexp.MustCompile(` // .*`)
	var first string
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := program.FindSubmatch(page)
		if found == nil {
			t.Fatalf("%s has no program", name)
		}
		if first == "" {
			first = string(found[1])
		}
		if comment.ReplaceAllString(string(found[1]), "") != comment.ReplaceAllString(first, "") {
			t.Errorf("%s has another program than README.md", name)
		}
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", file).CombinedOutput()
	if want := "invoice/42 is ours, with a token: true\n"; err != nil || string(out) != want {
		t.Errorf("got %q, want %q (%v)", out, want, err)
	}
}
