//go:build !linux && !darwin

package main

import "os"

// A screen is a terminal that shows a status line: there is none on this system.
type screen struct{}

func openScreen() *screen        { return nil }
func screenOn(*os.File) *screen  { return nil }
func (*screen) rows() int        { return 0 }
func (*screen) columns() int     { return 0 }
func (*screen) foreground() bool { return false }

func canAsk() bool { return false }
