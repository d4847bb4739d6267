// Package otherprocess lets a test start its own binary as another process on a shared directory, and kill it.
package otherprocess

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const env = "HOLDFAST_TEST_OTHER_PROCESS"

// Dir returns the directory that the other process was started on; it is empty in the test. TestMain checks it, and
// does the other process's work there.
func Dir() string { return os.Getenv(env) }

// A Process is the other process. It is killed when the test ends.
type Process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Reader
}

// Start starts the other process.
func Start(t testing.TB, dir string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &Process{t, cmd, bufio.NewReader(out)}
}

// Line waits for the next line of the process's output.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the other process printed %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Says waits for a line, and fails the test if it is not want.
func (p *Process) Says(want string) {
	p.t.Helper()
	if line := p.Line(); line != want {
		p.t.Fatalf("the other process printed %q, want %q", line, want)
	}
}

// Kill kills the process.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Error(err)
	}
}
