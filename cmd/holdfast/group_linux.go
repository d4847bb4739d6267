package main

import "syscall"

// commandAttr has the kernel kill the command when our main thread, which lives
// as long as the process, ends. It is for the case that both of us are killed
// at once; it does not reach what the command has started.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} } //mutant:run-kernel-kills-command
