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

// givesUp are the signals that end the wait for the lock.
var givesUp = front.GivesUp

// A group is the running command with its process group.
type group struct {
	pgid      int
	changed   chan os.Signal // SIGCHLD: there is a process to reap
	empty     bool           // no process of the group is left
	childless bool           // we have no child left
}

// An event says that the command itself has exited or stopped.
type event struct {
	status syscall.WaitStatus
	exited bool // else stopped
}

// start starts the command in its own process group. Call it on the main thread: on Linux the
// command is killed when that thread ends.
//
// The command gets the terminal if our front has it now and no other process shares it in a
// pipeline. The kernel hands it over in the child, before the command runs.
//
// With anyway the command gets the terminal even if its stdin or stdout is not one, because it
// reads /dev/tty.
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
		front.WithDefault(syscall.SIGTTOU, fork) // the command would inherit that we ignore it
	}
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if attr.Foreground {
			tty.Take(front.Above.Group(), false) // the child may have taken it already
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

// reap reaps all our dead children, and returns the events of the command itself. Until the
// command has ended, nothing else in the program may wait for a process.
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

// stopped reports to the front that the command was stopped.
func (g *group) stopped(e event) {
	front.Above.Stopped(e.status.StopSignal())
}

// signal sends the signal to the whole group. After TERM, INT or HUP it also continues a stopped
// command, so that it can handle them.
func (g *group) signal(sig os.Signal) {
	if g.gone() {
		return
	}
	unix.Kill(-g.pgid, sig.(syscall.Signal))
	switch sig {
	case syscall.SIGCONT:
		front.Above.Conts++ // the kernel no longer reports a stop from before it
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

// terminate asks the group to end, with the signal, and continues it if it is stopped.
func (g *group) terminate(sig os.Signal) {
	g.signal(sig)
	if !g.gone() {
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

// signalName returns the signal as --signal takes it.
func signalName(sig os.Signal) string {
	if name := unix.SignalName(sig.(syscall.Signal)); name != "" { // real-time signals have none
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig.(syscall.Signal)))
}

func (g *group) kill() { g.signal(syscall.SIGKILL) }

// killAll kills the group, and all other children of ours: also what has left the group and has
// become our child since, even in its own session. The descendants of these become our children
// when they die, so call it until we have none.
//
// Their pids cannot have been reused: only the goroutine of the supervisor reaps them, and it is
// the one that runs this.
func (g *group) killAll() {
	g.kill()
	for _, pid := range front.Children() {
		unix.Kill(pid, syscall.SIGKILL)
	}
}

// gone reports whether no process of the group is left, once the command itself has been reaped.
// A process that we may not signal is still there.
func (g *group) gone() bool {
	if !g.empty && errors.Is(unix.Kill(-g.pgid, 0), syscall.ESRCH) {
		g.empty = true
		front.Above.Gone()
	}
	return g.empty
}

// none reports whether neither the group nor any other child of ours is left.
func (g *group) none() bool { return g.gone() && g.childless }

// code returns the exit code that a shell gives for the status.
func (e event) code() int {
	if e.status.Signaled() {
		return 128 + int(e.status.Signal())
	}
	return e.status.ExitStatus()
}

// signals returns the signals that the front passes on.
func signals() <-chan os.Signal { return front.Above.Signals }

// announce tells the front that we hold the leases. It hands over the file that shows others that
// we are alive: if we are killed, the name must not be free before the front has killed the rest.
func announce(s store.Store, leases *holdfast.LeaseSet) {
	if f, err := presence(s, leases); err == nil && f != nil {
		defer f.Close()
		raw, _ := f.SyscallConn()
		raw.Control(func(fd uintptr) { front.Above.Holds(int(fd)) })
		return
	}
	front.Above.Holds(-1)
}

// presence returns the file that shows others that we are alive; nil if the store has none.
func presence(s store.Store, leases *holdfast.LeaseSet) (*os.File, error) {
	switch s := s.(type) {
	case *filestore.Store:
		id, err := store.ParseID(held(leases)[0].ID) // all are of one process
		if err != nil {
			return nil, err
		}
		return s.Presence(id.Process()) //mutant:run-presence-of-process
	case interface{ Presence() (*os.File, error) }: // pgadvisory's; the build may lack its driver
		return s.Presence() //mutant:run-presence-of-session
	}
	return nil, nil
}

// armFront makes the front kill everything in d unless it is armed again, or the kernel if the
// front cannot. The lock expires in end, unless it is endless. Call disarmFront when nothing is
// left to kill.
func armFront(d, end time.Duration, endless bool) { front.Above.Arm(d, end, endless) }
func disarmFront()                                { front.Above.Disarm() }

// guardBelow makes the kernel kill, together with the command's group, the groups that its
// descendants have made so far.
func guardBelow() { front.Above.GuardBelow() }

// frontPID returns the pid that others see.
func frontPID() int { return front.Above.PID() }

// enter opens the link to our front, if we have one. main calls it early.
func enter() {
	if err := front.Open(); err != nil {
		tell("%v", err)
		os.Exit(exitInternal)
	}
}

// needFront makes this process the front, and then does not return, unless it has one. Usually
// package front has done so before main.
func needFront() { front.Need() }

// quit ends the program with the code.
func quit(code int) {
	if front.Above != nil {
		front.Above.Ended(code)
	}
	os.Exit(code)
}

// signalOf returns the signal with a name like TERM or SIGTERM, or a number.
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

// codeOfSignal returns the exit code of a process that ends because of the signal.
func codeOfSignal(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }

// cannotRun returns the exit code for a command that could not be started.
func cannotRun(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitCannotRun
}
