//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// A terminal is the one that controls our session. A nil terminal is nobody's.
type terminal struct {
	fd   int
	mode *unix.Termios // as we found it
}

// openTerminal returns nil if there is none.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	return &terminal{fd, mode}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil
}

// foreground reports whether the process group is in the foreground.
func (t *terminal) foreground(group int) bool {
	if t == nil {
		return false
	}
	has, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && has == group
}

// give puts a process group in the foreground.
func (t *terminal) give(group int) error {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

// take gives the terminal to our process group and, if asked to, puts it into
// the mode that it was in.
func (t *terminal) take(group int, restore bool) {
	if t.give(group) == nil && restore {
		unix.IoctlSetTermios(t.fd, setTermios, t.mode)
	}
}
