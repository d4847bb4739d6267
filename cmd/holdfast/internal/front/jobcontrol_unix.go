//go:build linux || darwin

package front

import (
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// started records that the command runs, and whether it has or wants the terminal.
func (f *frontend) started(terminal byte) {
	f.given, f.wants = terminal&HasTerminal != 0, terminal&WantsTerminal != 0
	f.catchStop()
}

// catchStop starts to catch Ctrl-Z. The command gets it and stops, and that stops us.
func (f *frontend) catchStop() {
	if !f.ignored[syscall.SIGTSTP] {
		signal.Notify(f.signals, syscall.SIGTSTP)
	}
}

// stopped handles a command that the signal has stopped. For the shell we are the job, so we stop
// too; the engine does not, and renews the lease.
//
// conts is how many of our CONTs the command had received before it stopped. If we have sent
// another one since, the command continues: stopping now would undo the fg that it came from.
func (f *frontend) stopped(sig syscall.Signal, conts byte) {
	if conts != f.conts { //mutant:front-stop-outdated
		return
	}
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		f.wants = true
		// Our group is in the foreground in a pipeline, or has come there since. The command's is
		// if the signal was sent before the command got the terminal.
		if f.tty.Foreground(unix.Getpgrp()) || f.tty.Foreground(int(f.board.group.Load())) { //mutant:front-foreground-goes-on
			f.resume()
			return
		}
	}
	if f.tty == nil || f.ignored[syscall.SIGTSTP] {
		return // no shell could continue the job
	}
	f.take(false)
	// If we cannot be stopped, Ctrl-Z could not have stopped the command without holdfast either.
	if f.stop() || sig == syscall.SIGTSTP { //mutant:front-stop-passed-on
		f.resume()
	}
}

// stop stops our process group, as Ctrl-Z does, and returns when it is continued. It returns
// false if it was not stopped: the kernel does not stop a group that no shell could continue.
func (f *frontend) stop() bool {
	select {
	case <-f.continued: // from before
	default:
	}
	signal.Ignore(syscall.SIGTSTP)
	unix.Kill(0, syscall.SIGTSTP) // the others: in a pipeline, or a script around us
	stopSelf()                    // returns when we are continued
	f.catchStop()
	select {
	case <-f.continued:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// resume continues the command, with the terminal if we are in the foreground.
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

// take takes the terminal back from the command, and on restore puts it into its original mode.
func (f *frontend) take(restore bool) {
	if f.given {
		f.given = false
		f.tty.Take(unix.Getpgrp(), restore)
	}
}
