//go:build linux || darwin

package prove

import (
	"os"
	"syscall"
)

// freeze stops a process and all that it has started. thaw lets them go on, and
// endAll kills them.
func freeze(p *os.Process) error { return signalAll(p, syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return signalAll(p, syscall.SIGCONT) }
func endAll(p *os.Process) error { return signalAll(p, syscall.SIGKILL) }

// signalAll signals a process and its group, which it leads. It does not signal the
// group of a process that has been waited for: its id may have been reused.
func signalAll(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(syscall.Signal(0)); err != nil {
		return err
	}
	if err := syscall.Kill(-p.Pid, s); err != syscall.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

// endGroup kills what is left of the group whose leader has just been waited for.
func endGroup(leader int) { syscall.Kill(-leader, syscall.SIGKILL) }

// childAttr puts a child into its own process group: Ctrl-C at the terminal reaches
// only the parent, which ends its children.
func childAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(a)
	return a
}
