//go:build linux || darwin

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The lean program of a package executes the whole one if a store or a command needs that, and only then.
func TestTheLeanProgramBecomesTheWholeOneForAStoreThatItLacks(t *testing.T) {
	t.Parallel()
	dir, err := plainCommand()
	if err != nil {
		t.Fatal(err)
	}
	whole, with, without, alone := filepath.Join(dir, "holdfast"), filepath.Join(t.TempDir(), "holdfast"), filepath.Join(t.TempDir(), "holdfast"), filepath.Join(t.TempDir(), "holdfast")
	for file, link := range map[string]string{with: "-X=main.whole=" + whole, without: "-X=main.whole=/none/holdfast", alone: ""} {
		if err := buildCommand("holdfast_lean", file, link); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0") // so that ui ends at once
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	metrics := filepath.Join(t.TempDir(), "m.prom")
	etcd, files := "etcd://"+testserver.SharedEtcd(t), "file:"+t.TempDir()+"/locks"
	for _, c := range []struct {
		program, env, args string
		exit               int
		says               string
	}{
		{with, "HOLDFAST_STORE=" + etcd, "run lean/a -n -- echo ran", 0, "ran\n"},
		{with, "HOLDFAST_STORE=" + etcd, "run lean/a -n -- false", 1, ""},
		{with, "A=b", "run lean/b -n --store " + etcd + " -- sh -c kill\t-TERM\t$$", 128 + 15, ""},
		{with, "A=b", "run --store=" + etcd + " lean/b -n -- echo ran", 0, "ran\n"},
		{with, "HOLDFAST_STORE=" + etcd, "ls", 0, ""},
		{alone, "A=b", "run lean/a -n --store sqlserver://h?database=d -- true", exitUsage, "without the driver of SQL Server"},
		{with, "HOLDFAST_STORE=" + etcd, "run --nonsense lean/a -- true", exitUsage, "nonsense"},
		{without, "HOLDFAST_STORE=" + etcd, "run lean/a -n -- echo ran", exitInternal, "/none/holdfast"},
		{without, "HOLDFAST_STORE=" + files, "run lean/a -n -- echo ran", 0, "ran\n"},
		{without, "HOLDFAST_STORE=", "run lean/a -n -- echo ran", exitUsage, "HOLDFAST_STORE is set, and empty"},
		{alone, "HOLDFAST_STORE=" + files, "run lean/m -n --metrics-file " + metrics + " -- true", 0, ""},
		{alone, "HOLDFAST_STORE=" + files, "run lean/m -n --trace -- true", exitUsage, "--trace needs the program holdfast-trace"},
		{alone, "HOLDFAST_STORE=" + etcd, "run lean/a -n -- echo ran", exitUsage, "without the driver of etcd"},
		{with, "HOLDFAST_STORE=" + files, "top", exitUsage, "must be a terminal"},
		{with, "A=b", "--store " + files + " ui --port " + port, exitUsage, "127.0.0.1:" + port + " cannot be used"},
		{without, "HOLDFAST_STORE=" + files, "top", exitInternal, "top is for the full program, /none/holdfast"},
		{without, "HOLDFAST_STORE=" + files, "ui", exitInternal, "ui is for the full program, /none/holdfast"},
		{alone, "HOLDFAST_STORE=" + files, "top", exitUsage, "top: this program was built without it"},
		{alone, "HOLDFAST_STORE=" + files, "ui", exitUsage, "ui: this program was built without it"},
		{whole, handedEnv + "=v0.0.1", "ls --store " + files, exitInternal, "of version v0.0.1 has started this program"},
	} {
		var args []string
		for _, arg := range strings.Split(c.args, " ") {
			args = append(args, strings.ReplaceAll(arg, "\t", " "))
		}
		cmd := exec.Command(c.program, args...)
		cmd.Env = append(os.Environ(), c.env)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.exit || !strings.Contains(string(out), c.says) {
			t.Errorf("%s %s: got exit code %d (%v), want %d and %q: %s", c.env, c.args, code, err, c.exit, c.says, out)
		}
	}
	if text, err := os.ReadFile(metrics); err != nil || !strings.Contains(string(text), `holdfast_run_outcome{name="lean/m",outcome="succeeded"} 1`) {
		t.Errorf("got metrics %q (%v)", text, err)
	}
}

// The file that names the store may be one that can be read only once.
func TestAPipeThatNamesTheStoreIsReadOnceByTheLeanProgram(t *testing.T) {
	t.Parallel()
	dir, err := plainCommand()
	if err != nil {
		t.Fatal(err)
	}
	lean := filepath.Join(t.TempDir(), "holdfast")
	if err := buildCommand("holdfast_lean", lean, "-X=main.whole="+filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lean, "run", "lean/a", "-n", "--", "echo", "ran")
	cmd.Env = append(os.Environ(), "HOLDFAST_STORE_FILE=/dev/stdin")
	cmd.Stdin = strings.NewReader("file:" + t.TempDir() + "/locks\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ran\n" {
		t.Errorf("%v: %s", err, out)
	}
}
