//go:build linux || darwin

package prove

import (
	"os"
	"syscall"
)

// freeze stops a process from running, and thaw lets it go on.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }

// A child is a process group of its own: a Ctrl-C at the terminal is for the
// parent, which ends them.
func childAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(a)
	return a
}
