package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// On macOS nothing ends the command when front and engine are killed at once,
// and orphans are launchd's: what has left the command's group is not found.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
func adoptOrphans()                     {}
func children() []int                   { return nil }

func duplicate(from, to int) { unix.Dup2(from, to) }
