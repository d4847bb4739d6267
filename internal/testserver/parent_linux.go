package testserver

import "syscall"

// dieWithParent makes the server end when the test binary is killed, which then cannot stop it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
