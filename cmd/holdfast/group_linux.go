package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// commandAttr has the kernel kill the command when our main thread, which lives
// as long as the process, ends.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// adoptOrphans makes us the parent of what the command leaves behind, so that
// we reap it: a zombie would keep the group from being gone.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func duplicate(from, to int) { unix.Dup3(from, to, 0) }
