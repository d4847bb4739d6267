//go:build unix

package testserver

import (
	"os"
	"syscall"
)

var (
	terminate os.Signal = syscall.SIGTERM
	freeze    os.Signal = syscall.SIGSTOP
	resume    os.Signal = syscall.SIGCONT
)
