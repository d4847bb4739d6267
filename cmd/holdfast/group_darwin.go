package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// On macOS nothing ends the command when we are killed, and what it leaves
// behind is launchd's to reap.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
func adoptOrphans()                     {}

func duplicate(from, to int) { unix.Dup2(from, to) }
