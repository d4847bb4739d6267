package main

import "syscall"

// commandAttr sets nothing: on macOS nothing ends the command if front and engine are killed at
// once.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
