//go:build linux || darwin

package front

import "golang.org/x/sys/unix"

// A Terminal is the controlling terminal of our session. A nil Terminal has no group in the
// foreground.
type Terminal struct {
	FD   int
	mode *unix.Termios // as we found it
}

// OpenTerminal opens the terminal; nil if there is none.
func OpenTerminal() *Terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	return &Terminal{fd, mode}
}

// IsTerminal reports whether the descriptor is of a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil
}

// Foreground reports whether the process group is in the foreground.
func (t *Terminal) Foreground(group int) bool {
	if t == nil {
		return false
	}
	has, err := unix.IoctlGetInt(t.FD, unix.TIOCGPGRP)
	return err == nil && has == group
}

// Give puts a process group in the foreground.
func (t *Terminal) Give(group int) error {
	return unix.IoctlSetPointerInt(t.FD, unix.TIOCSPGRP, group)
}

// Take gives the terminal to the process group, and on restore puts it into its original mode.
func (t *Terminal) Take(group int, restore bool) {
	if t.Give(group) == nil && restore {
		unix.IoctlSetTermios(t.FD, setTermios, t.mode)
	}
}
