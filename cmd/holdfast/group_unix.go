//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// givesUp are the signals that end the waiting for the lock.
var givesUp = front.GivesUp

// A group is the command that runs, with its process group.
type group struct {
	pgid      int
	changed   chan os.Signal // SIGCHLD: there is something to reap
	empty     bool           // no process of the group is left
	childless bool           // we have no child left
}

// An event is what has become of the command itself.
type event struct {
	status syscall.WaitStatus
	exited bool // else stopped
}

// start starts the command in a process group of its own. It is to be called
// on the main thread: on Linux the command is killed when that ends.
//
// The command gets the terminal if that is our front's now and nobody is beside
// it in a pipeline. The kernel hands it over in the child, before the command
// runs.
//
// anyway says that it gets the terminal too if its stdin or stdout is none: it reads
// /dev/tty.
func start(path string, argv, env []string, anyway bool) (*group, error) {
	g := &group{changed: make(chan os.Signal, 1)}
	front.AdoptOrphans()
	signal.Notify(g.changed, syscall.SIGCHLD)
	attr := commandAttr()
	attr.Setpgid = true
	terminal := byte(0)
	tty := front.OpenTerminal()
	if anyway || front.IsTerminal(0) && front.IsTerminal(1) { //mutant:run-foreground-anyway
		terminal = front.WantsTerminal
		if tty.Foreground(front.Above.Group()) { //mutant:run-terminal-given
			terminal |= front.HasTerminal
			attr.Foreground, attr.Ctty = true, tty.FD
		}
	}
	var pid int
	var err error
	fork := func() {
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr})
	}
	if front.Above.Ignored[syscall.SIGTTOU] { //mutant:run-command-ignores-as-we-found
		fork()
	} else {
		front.WithDefault(syscall.SIGTTOU, fork) // what we ignore the command would ignore
	}
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if attr.Foreground {
			tty.Take(front.Above.Group(), false) // the child may have come that far
		}
		return nil, err
	}
	g.pgid = pid
	if err := front.Above.Guard(pid); err != nil {
		tell("the kernel refused a timer: if holdfast is stopped, the command may run on without the lock: %v", err)
	}
	front.Above.Started(pid, terminal)
	front.LetGo()
	return g, nil
}

// reap buries what has died of what is ours, and returns what has become of the
// command itself since. Nothing else in the program may wait for a process.
func (g *group) reap() (events []event) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid == 0:
			g.childless = err != nil
			return events
		case pid == g.pgid:
			if status.Signaled() {
				front.Above.Killer = status.Signal()
			}
			events = append(events, event{status, !status.Stopped()})
		}
	}
}

// stopped deals with a command that was stopped.
func (g *group) stopped(e event) {
	front.Above.Stopped(e.status.StopSignal())
}

// signal sends the signal to the whole group, and lets a stopped command act on
// it.
func (g *group) signal(sig os.Signal) {
	if g.gone() {
		return
	}
	unix.Kill(-g.pgid, sig.(syscall.Signal))
	switch sig {
	case syscall.SIGCONT:
		front.Above.Conts++ // the kernel reports no stop from before it any more
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

// terminate asks the group to end, by the signal. One that is stopped goes on for that.
func (g *group) terminate(sig os.Signal) {
	g.signal(sig)
	if !g.gone() {
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

// signalName is the signal as it is given to --signal.
func signalName(sig os.Signal) string {
	if name := unix.SignalName(sig.(syscall.Signal)); name != "" { // those of real time have none
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig.(syscall.Signal)))
}

func (g *group) kill() { g.signal(syscall.SIGKILL) }

// killAll kills the group, and whatever the command has started that has become
// our child since: one that made a session of its own too. What was below those
// comes to us when they die, so it is to be called until we are childless.
//
// They cannot be others by now that have the same numbers: it is only here, in
// the goroutine of the supervisor, that they are reaped.
func (g *group) killAll() {
	g.kill()
	for _, pid := range front.Children() {
		unix.Kill(pid, syscall.SIGKILL)
	}
}

// gone reports whether no process of the group is left, once the command itself
// has been reaped. One that we may not signal is not gone.
func (g *group) gone() bool {
	if !g.empty && errors.Is(unix.Kill(-g.pgid, 0), syscall.ESRCH) {
		g.empty = true
		front.Above.Gone()
	}
	return g.empty
}

// none reports whether nothing at all is left that could be found.
func (g *group) none() bool { return g.gone() && g.childless }

// code is the exit code that a shell gives for the status.
func (e event) code() int {
	if e.status.Signaled() {
		return 128 + int(e.status.Signal())
	}
	return e.status.ExitStatus()
}

// signals are what the front passes on.
func signals() <-chan os.Signal { return front.Above.Signals }

// announce tells the front that the leases are ours. What shows others that we
// live is given to it to keep: if we are killed the name must not be had before
// the front has killed the rest.
func announce(s store.Store, leases *holdfast.LeaseSet) {
	if f, err := presence(s, leases); err == nil && f != nil {
		defer f.Close()
		raw, _ := f.SyscallConn()
		raw.Control(func(fd uintptr) { front.Above.Holds(int(fd)) })
		return
	}
	front.Above.Holds(-1)
}

// presence is what shows others that we live; nil where there is no such thing.
func presence(s store.Store, leases *holdfast.LeaseSet) (*os.File, error) {
	switch s := s.(type) {
	case *filestore.Store:
		id, err := store.ParseID(held(leases)[0].ID) // all are of one process
		if err != nil {
			return nil, err
		}
		return s.Presence(id.Process()) //mutant:run-presence-of-process
	case interface{ Presence() (*os.File, error) }: // pgadvisory's, without its driver where that is left out
		return s.Presence() //mutant:run-presence-of-session
	}
	return nil, nil
}

// armFront has the front kill all in d unless it is armed again, or the kernel if the
// front cannot; the lock runs out in end, unless it is endless. disarmFront is for
// when nothing is left to kill.
func armFront(d, end time.Duration, endless bool) { front.Above.Arm(d, end, endless) }
func disarmFront()                                { front.Above.Disarm() }

// guardBelow has the kernel kill, together with the command's group, those that its
// descendants have made until now.
func guardBelow() { front.Above.GuardBelow() }

// frontPID is the process that others see.
func frontPID() int { return front.Above.PID() }

// enter is the first thing that main does.
func enter() {
	if err := front.Open(); err != nil {
		tell("%v", err)
		os.Exit(exitInternal)
	}
}

// needFront makes us the front, and does not return, unless we have one. Most
// often we have been it before main, see package front.
func needFront() { front.Need() }

// quit ends the program with the code.
func quit(code int) {
	if front.Above != nil {
		front.Above.Ended(code)
	}
	os.Exit(code)
}

// signalOf is the signal of a name like TERM or SIGTERM, or of a number.
func signalOf(name string) (os.Signal, error) {
	name = strings.ToUpper(name)
	if n, err := strconv.Atoi(name); err == nil && unix.SignalName(syscall.Signal(n)) != "" {
		return syscall.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
		return sig, nil
	}
	return nil, errors.New("want a signal like TERM, INT or 10")
}

// codeOfSignal is the exit code of one who ends because of the signal.
func codeOfSignal(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }

// cannotRun is the exit code for a command that could not be started.
func cannotRun(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitCannotRun
}
