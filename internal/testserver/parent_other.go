//go:build !linux

package testserver

import "syscall"

// dieWithParent does nothing here: a test binary that is killed leaves its
// servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
