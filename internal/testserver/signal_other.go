//go:build !unix

package testserver

import "os"

// These signals do not exist here: Stop is Kill, and Freeze fails the test.
var (
	terminate os.Signal = os.Kill
	freeze    os.Signal = unsupported("freeze a process")
	resume    os.Signal = unsupported("let a process go on")
)

type unsupported string

func (unsupported) Signal()          {}
func (u unsupported) String() string { return string(u) }
