package main

import "syscall"

// commandAttr makes the kernel kill the command when our main thread ends, which lives as long as
// the process. This covers the case that front and engine are killed at once. It does not reach
// what the command has started.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} } //mutant:run-kernel-kills-command
