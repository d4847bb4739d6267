package prove

import "syscall"

// dieWithParent makes the kernel kill a child when the thread that started it
// ends: a stopped child would not notice by itself.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
