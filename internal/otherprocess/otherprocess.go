// Package otherprocess has a test start its own binary as another process, on a directory that both use, and kill it.
package otherprocess

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const env = "HOLDFAST_TEST_OTHER_PROCESS"

// Dir is the directory that the other process was started on; empty: this is the test. TestMain asks, and does in the other process
// what it is for.
func Dir() string { return os.Getenv(env) }

// A Process is the other one. It is killed when the test ends.
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

// Line waits for the next line that the process writes.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the other process says %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Says waits for a line, which must be this one.
func (p *Process) Says(want string) {
	p.t.Helper()
	if line := p.Line(); line != want {
		p.t.Fatalf("the other process says %q, want %q", line, want)
	}
}

// Kill kills the process.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Error(err)
	}
}
