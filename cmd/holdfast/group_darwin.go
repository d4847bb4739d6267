package main

import "syscall"

// On macOS nothing ends the command when front and engine are killed at once.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
