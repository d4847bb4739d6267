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
//
// conts is how many of our CONTs the command had received before it stopped. If we
// have sent another one since, the command goes on: to stop now would undo the fg
// that it came from.
func (f *frontend) stopped(sig syscall.Signal, conts byte) {
	if conts != f.conts { //mutant:front-stop-outdated
		return
	}
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		f.wants = true
		// Our group is in the foreground in a pipeline, or by now; the command's is if
		// the signal was on its way while the command got the terminal.
		if f.tty.Foreground(unix.Getpgrp()) || f.tty.Foreground(int(f.board.group.Load())) { //mutant:front-foreground-goes-on
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
	if f.pass(syscall.SIGCONT) == nil { // to the engine: it knows whether the command may run
		f.conts++
	}
}

// take takes the terminal back from the command, and, if asked to, puts it into
// the mode that it was in.
func (f *frontend) take(restore bool) {
	if f.given {
		f.given = false
		f.tty.Take(unix.Getpgrp(), restore)
	}
}
