//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
)

// A screen is a terminal that can do what a status line needs.
type screen struct{ fd int }

// openScreen is the screen that stderr is; nil if it is none.
func openScreen() *screen { return screenOn(os.Stderr) }

// screenOn is the screen that the file is; nil if it is none.
func screenOn(f *os.File) *screen {
	s := &screen{int(f.Fd())}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" || !front.IsTerminal(s.fd) {
		return nil
	}
	return s
}

// columns is how wide it is now; 80 where it does not say, as a serial line.
func (s *screen) columns() int {
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// rows is how high it is now; 24 where it does not say.
func (s *screen) rows() int {
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return 24
	}
	return int(size.Row)
}

// foreground reports whether the job that we are has the terminal.
func (s *screen) foreground() bool {
	t := front.Terminal{FD: s.fd}
	if front.Above == nil { // of hold
		return t.Foreground(unix.Getpgrp())
	}
	return t.Foreground(front.Above.Group())
}

// canAsk reports whether there is somebody to ask: who sees stderr and types stdin.
func canAsk() bool { return front.IsTerminal(0) && front.IsTerminal(2) }
