//go:build linux || darwin

package front

import (
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// started says that the command runs, and what of the terminal is its.
func (f *frontend) started(terminal byte) {
	f.given, f.wants = terminal&HasTerminal != 0, terminal&WantsTerminal != 0
	f.catchStop()
}

// catchStop begins to catch a Ctrl-Z. It stops the command, and that stops us.
func (f *frontend) catchStop() {
	if !f.ignored[syscall.SIGTSTP] {
		signal.Notify(f.signals, syscall.SIGTSTP)
	}
}

// stopped deals with a command that the signal has stopped. To the shell the
// job is we, so we stop as well; the engine does not, and renews the lease.
func (f *frontend) stopped(sig syscall.Signal) {
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		f.wants = true
		if f.tty.Foreground(unix.Getpgrp()) { // in a pipeline, or by now
			f.resume()
			return
		}
	}
	if f.tty == nil || f.ignored[syscall.SIGTSTP] {
		return // there is no shell that lets jobs go on
	}
	f.take(false)
	// If we cannot be stopped, the command could not have been, by Ctrl-Z,
	// without us.
	if f.stop() || sig == syscall.SIGTSTP { //mutant:front-stop-passed-on
		f.resume()
	}
}

// stop stops our process group, as a Ctrl-Z does, and returns when it goes on.
// It reports false if it was not stopped: the kernel stops no group that no
// shell would let go on.
func (f *frontend) stop() bool {
	select {
	case <-f.continued: // from before
	default:
	}
	signal.Ignore(syscall.SIGTSTP)
	unix.Kill(0, syscall.SIGTSTP) // the others: of a pipeline, or a script around us
	stopSelf()                    // returns when we go on
	f.catchStop()
	select {
	case <-f.continued:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// resume lets the command go on, with the terminal if we are in the foreground.
func (f *frontend) resume() {
	group := int(f.board.group.Load())
	if group == 0 {
		return
	}
	switch {
	case f.tty.Foreground(unix.Getpgrp()):
		if f.wants && f.tty.Give(group) == nil {
			f.given = true
		}
	case !f.tty.Foreground(group):
		f.given = false // the shell has taken it from the command
	}
	f.pass(syscall.SIGCONT) // to the engine: it knows whether the command may run
}

// take takes the terminal back from the command, and, if asked to, puts it into
// the mode that it was in.
func (f *frontend) take(restore bool) {
	if f.given {
		f.given = false
		f.tty.Take(unix.Getpgrp(), restore)
	}
}
