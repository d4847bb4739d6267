//go:build linux || darwin

package prove

import (
	"os"
	"syscall"
)

// freeze stops a process from running, and all that it has started, thaw lets it
// go on, and endAll kills them.
func freeze(p *os.Process) error { return signalAll(p, syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return signalAll(p, syscall.SIGCONT) }
func endAll(p *os.Process) error { return signalAll(p, syscall.SIGKILL) }

// signalAll signals a process and its group, of which it is the leader. An ended
// one was waited for by then, and its number may be another's.
func signalAll(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(syscall.Signal(0)); err != nil {
		return err
	}
	if err := syscall.Kill(-p.Pid, s); err != syscall.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

// endGroup kills what is left of the group whose leader was just waited for.
func endGroup(leader int) { syscall.Kill(-leader, syscall.SIGKILL) }

// A child is a process group of its own: a Ctrl-C at the terminal is for the
// parent, which ends them.
func childAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(a)
	return a
}
