//go:build !linux

package testserver

import "syscall"

// dieWithParent does nothing here: the servers of a killed test binary keep running.
func dieWithParent() *syscall.SysProcAttr { return nil }
