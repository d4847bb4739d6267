package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// commandAttr has the kernel kill the command when our main thread, which lives
// as long as the process, ends. It is for the case that both of us are killed
// at once; it does not reach what the command has started.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// adoptOrphans makes us the parent of whatever loses its own below us: so that
// the engine reaps it, and can kill it, and after the engine the front.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func duplicate(from, to int) { unix.Dup3(from, to, 0) }
