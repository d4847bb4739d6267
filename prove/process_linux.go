package prove

import "syscall"

// dieWithParent has the kernel kill a child when the thread that started it
// ends: a child that is stopped would not notice by itself.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
