//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// filesTags is how the README's first command is built.
const filesTags = "holdfast_lean,holdfast_files"

// The README's first command works as the README says. For other stores it says what to do.
func TestTheFirstCommandLocksOnFilesAlone(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../README.md", "../../README.zh-CN.md"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "\ngo run -tags "+filesTags+" ./cmd/holdfast run demo -- sh -c 'echo $HOLDFAST_TOKEN'\n") {
			t.Errorf("%s has a different first command (%v)", file, err)
		}
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	if err := buildCommand(filesTags, program); err != nil {
		t.Fatal(err)
	}
	run := func(store string) (out string, exit int) {
		cmd := exec.Command(program, "run", "demo", "-n", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
		text, _ := cmd.CombinedOutput()
		return string(text), cmd.ProcessState.ExitCode()
	}
	out, exit := run("file:" + t.TempDir() + "/locks")
	if token, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64); exit != 0 || err != nil || token == 0 {
		t.Errorf("on files: got exit code %d and token %q", exit, out)
	}
	for url, driver := range map[string]string{"redis://127.0.0.1:1": "Redis", "postgres://127.0.0.1:1/a": "PostgreSQL", "mysql://127.0.0.1:1/a": "MySQL", "zk://127.0.0.1:1": "ZooKeeper", "etcd://127.0.0.1:1": "etcd"} {
		says := "this program was built without the driver of " + driver + ": build it without -tags " + filesTags
		if out, exit := run(url); exit != exitUsage || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", url, exit, exitUsage, says, out)
		}
	}
}

// A newcomer's first build has few packages, and none of a driver. The bounds leave room for what a Go release adds. If a change
// exceeds them, find out what is imported now, and keep decision 29 true.
func TestTheFirstCommandIsBuiltOfFewPackages(t *testing.T) {
	t.Parallel()
	for tags, most := range map[string]int{filesTags: 165, "holdfast_lean": 295} { // with Go 1.26 it is 157 and 282
		cmd := exec.Command("go", "list", "-deps", "-tags", tags, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := strings.Fields(string(out))
		if t.Logf("%s: %d packages", tags, len(packages)); len(packages) > most {
			t.Errorf("with %s: got %d packages, want at most %d", tags, len(packages), most)
		}
		if i := slices.IndexFunc(packages, func(p string) bool { return strings.HasSuffix(p, "/redisstore") }); (i >= 0) == (tags == filesTags) {
			t.Errorf("with %s: got Redis included: %v", tags, i >= 0)
		}
	}
}
