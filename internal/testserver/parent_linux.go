package testserver

import "syscall"

// dieWithParent ends the server with the test binary when that is killed and
// can stop nothing any more.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
