//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// A terminal is the one that controls our session. The methods of a nil
// terminal do nothing.
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

// foreground reports whether the terminal is ours: our process group is in its
// foreground.
func (t *terminal) foreground() bool {
	if t == nil {
		return false
	}
	pgid, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && pgid == unix.Getpgrp()
}

// give puts a process group in the foreground.
func (t *terminal) give(pgid int) error {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid)
}

// take puts our own group in the foreground again, and, if asked to, the
// terminal into the mode that it was in.
func (t *terminal) take(restore bool) {
	if t.give(unix.Getpgrp()) == nil && restore {
		unix.IoctlSetTermios(t.fd, setTermios, t.mode)
	}
}
