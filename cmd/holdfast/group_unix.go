//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// givesUp are the signals that end the waiting for the lock. The command gets
// these and forwarded, once it runs.
var (
	givesUp   = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	forwarded = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}
)

// A group is the command that runs, with its process group.
type group struct {
	pgid   int
	events chan event
	tty    *terminal // nil: there is none
	given  bool      // the command has, or had, the terminal
	wants  bool      // the command was stopped because it has not
}

// An event is what the wait loop tells of the command itself.
type event struct {
	status syscall.WaitStatus
	exited bool // else stopped
}

// start starts the command in a process group of its own. It is to be called
// on the main thread: on Linux the command is killed when that ends.
//
// The command gets the terminal if it is ours and nobody is beside us in a
// pipeline. The kernel hands it over in the child, before the command runs.
func start(path string, argv, env []string) (*group, error) {
	g := &group{events: make(chan event, 16), tty: openTerminal()}
	adoptOrphans()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a closed stderr must not end us before the command
	attr := commandAttr()
	attr.Setpgid = true
	if g.tty.foreground() && isTerminal(0) && isTerminal(1) {
		attr.Foreground, attr.Ctty = true, g.tty.fd
		g.given = true
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr})
	if err != nil {
		if g.given {
			g.tty.take(false) // the child may have come that far
		}
		return nil, err
	}
	if g.tty != nil {
		signal.Ignore(syscall.SIGTTOU) // taking the terminal back must not stop us
	}
	g.pgid = pid
	letGo()
	go g.wait()
	return g, nil
}

// letGo drops our stdin and stdout, which are the command's now: who is at the
// other end of a pipe shall see it closed when the command closes it.
func letGo() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // no harm but a pipe that is open for longer
	}
	duplicate(null, 0)
	duplicate(null, 1)
	unix.Close(null)
}

// wait reaps whatever is ours until nothing is left, and tells of the command.
// Nothing else in the program may wait for a process.
func (g *group) wait() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return // no child left
		case pid == g.pgid:
			g.events <- event{status, !status.Stopped()}
		}
	}
}

// stopped deals with a command that was stopped; tell says something to people.
// It does not stop with us as a shell's job does: then nobody would renew.
func (g *group) stopped(e event, tell func(string, ...any)) {
	switch e.status.StopSignal() {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		g.wants = true
		g.handOver()
	case syscall.SIGTSTP:
		if g.given {
			tell("not stopped: the command would keep the lock from all others")
			g.signal(syscall.SIGCONT)
		}
	}
}

// handOver gives the terminal to a command that was stopped for want of it, if
// we are in the foreground by now.
func (g *group) handOver() {
	if g.wants && g.tty.foreground() && g.tty.give(g.pgid) == nil {
		g.wants, g.given = false, true
		g.signal(syscall.SIGCONT)
	}
}

// signal sends the signal to the whole group, and lets a stopped command act on
// it.
func (g *group) signal(sig os.Signal) {
	unix.Kill(-g.pgid, sig.(syscall.Signal))
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

func (g *group) terminate() { g.signal(syscall.SIGTERM) }
func (g *group) kill()      { g.signal(syscall.SIGKILL) }

// gone reports whether no process of the group is left, once the command itself
// has been reaped. One that we may not signal is not gone.
func (g *group) gone() bool { return errors.Is(unix.Kill(-g.pgid, 0), syscall.ESRCH) }

// finish takes the terminal back. signalled says that a signal ended the
// command, so it may have left the terminal in a mode of its own.
func (g *group) finish(signalled bool) {
	if g.given {
		g.tty.take(signalled)
	}
}

// code is the exit code that a shell gives for the status.
func (e event) code() int {
	if e.status.Signaled() {
		return 128 + int(e.status.Signal())
	}
	return e.status.ExitStatus()
}

func (e event) signalled() bool { return e.status.Signaled() }

// interrupted reports whether the command died of a Ctrl-C or Ctrl-\ that it
// had from the terminal.
func (g *group) interrupted(e event) bool {
	return g.given && e.signalled() && (e.status.Signal() == syscall.SIGINT || e.status.Signal() == syscall.SIGQUIT)
}

// interruptOurselves gives the signal to our own group, which would have had it
// from the terminal if the command had not been in the foreground: so a script
// or a loop around us ends as well.
func interruptOurselves(e event) {
	sig := e.status.Signal()
	signal.Reset(sig)
	unix.Kill(0, sig)
	time.Sleep(100 * time.Millisecond) // it is on its way; where it was ignored we go on
}

// codeOfSignal is the exit code of one who ends because of the signal.
func codeOfSignal(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }

// catch begins to deliver the signals, less those that whoever started us
// ignores (nohup): the command inherits that.
func catch(signals ...os.Signal) chan os.Signal {
	c := make(chan os.Signal, 16)
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c
}

// catchStops begins to deliver the Ctrl-Z of a terminal.
func catchStops() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	return c
}

// cannotRun is the exit code for a command that could not be started.
func cannotRun(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitCannotRun
}
