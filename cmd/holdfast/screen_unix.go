//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
)

// A screen is a terminal that can show a status line.
type screen struct{ fd int }

// openScreen returns stderr as a screen; nil if it is not one.
func openScreen() *screen { return screenOn(os.Stderr) }

// screenOn returns the file as a screen; nil if it is not one.
func screenOn(f *os.File) *screen {
	s := &screen{int(f.Fd())}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" || !front.IsTerminal(s.fd) {
		return nil
	}
	return s
}

// columns returns the current width; 80 if the terminal does not say, like a serial line.
func (s *screen) columns() int {
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// rows returns the current height; 24 if the terminal does not say.
func (s *screen) rows() int {
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return 24
	}
	return int(size.Row)
}

// foreground reports whether our job has the terminal.
func (s *screen) foreground() bool {
	t := front.Terminal{FD: s.fd}
	if front.Above == nil { // hold has no front
		return t.Foreground(unix.Getpgrp())
	}
	return t.Foreground(front.Above.Group())
}

// canAsk reports whether there is a user to ask: stdin and stderr are a terminal.
func canAsk() bool { return front.IsTerminal(0) && front.IsTerminal(2) }
