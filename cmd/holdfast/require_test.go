//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command reads the file of the host; no environment variable changes its path.
func TestTheHostCanRequireASharedStore(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hf") // a short path, so that messages show all of it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	required, bin := filepath.Join(dir, "require-store"), filepath.Join(dir, "holdfast")
	if err := buildCommand("holdfast_lean", bin, "-X=main.requireStore="+required); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE=file:"+dir+"/locks", "HOLDFAST_REQUIRE_STORE=", "HOLDFAST_REQUIRE_STORE_FILE=/none")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want || want == exitUsage && !strings.Contains(string(out), required) {
			t.Errorf("%q: got exit code %d, %v, want %d: %s", args, code, err, want, out)
		}
	}
	ran := filepath.Join(dir, "ran")
	run(0, "run", "x", "-n", "--", "touch", ran)
	if err := os.Remove(ran); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(required, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(exitUsage, "run", "x", "-n", "--", "touch", ran)
	run(exitUsage, "run", "x", "-n", "--store", "file:"+dir+"/other", "--", "touch", ran)
	run(exitUsage, "run", "x", "-n", "--require-store=false", "--", "touch", ran)
	run(exitUsage, "wait", "x")
	run(exitUsage, "check", "x", "--id", strings.Repeat("0", 32))
	run(0, "ls") // people may read any store
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran, want it refused")
	}
	run(0, "run", "x", "-n", "--store", "file:"+dir+"/locks?trust-fs=1", "--", "touch", ran)
}
