//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/pgstore"
	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// givesUp are the signals that end the waiting for the lock; SIGKILL stands for
// the end of our front. The command gets these and forwarded, once it runs.
var (
	givesUp   = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL}
	forwarded = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}
)

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
func start(path string, argv, env []string) (*group, error) {
	g := &group{changed: make(chan os.Signal, 1)}
	adoptOrphans()
	signal.Notify(g.changed, syscall.SIGCHLD)
	attr := commandAttr()
	attr.Setpgid = true
	terminal := byte(0)
	tty := openTerminal()
	if isTerminal(0) && isTerminal(1) {
		terminal = wantsTerminal
		if tty.foreground(frontGroup()) {
			terminal |= hasTerminal
			attr.Foreground, attr.Ctty = true, tty.fd
		}
	}
	var pid int
	var err error
	fork := func() {
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr})
	}
	if above.ignored[syscall.SIGTTOU] {
		fork()
	} else {
		withDefault(syscall.SIGTTOU, fork) // what we ignore the command would ignore
	}
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if attr.Foreground {
			tty.take(frontGroup(), false) // the child may have come that far
		}
		return nil, err
	}
	g.pgid = pid
	above.board.group.Store(int64(pid))
	above.tell(message{what: started, code: terminal}, -1)
	letGo()
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
				above.killer = status.Signal()
			}
			events = append(events, event{status, !status.Stopped()})
		}
	}
}

// stopped deals with a command that was stopped.
func (g *group) stopped(e event) {
	above.tell(message{what: stopped, signal: byte(e.status.StopSignal())}, -1)
}

// signal sends the signal to the whole group, and lets a stopped command act on
// it.
func (g *group) signal(sig os.Signal) {
	if g.gone() {
		return
	}
	unix.Kill(-g.pgid, sig.(syscall.Signal))
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		unix.Kill(-g.pgid, syscall.SIGCONT)
	}
}

func (g *group) terminate() { g.signal(syscall.SIGTERM) }
func (g *group) kill()      { g.signal(syscall.SIGKILL) }

// killAll kills the group, and whatever the command has started that has become
// our child since: one that made a session of its own too. What was below those
// comes to us when they die, so it is to be called until we are childless.
//
// They cannot be others by now that have the same numbers: it is only here, in
// the goroutine of the supervisor, that they are reaped.
func (g *group) killAll() {
	g.kill()
	for _, pid := range children() {
		unix.Kill(pid, syscall.SIGKILL)
	}
}

// gone reports whether no process of the group is left, once the command itself
// has been reaped. One that we may not signal is not gone.
func (g *group) gone() bool {
	if !g.empty && errors.Is(unix.Kill(-g.pgid, 0), syscall.ESRCH) {
		g.empty = true
		above.board.group.Store(0)
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
func signals() <-chan os.Signal { return above.signals }

// announce tells the front that the leases are ours. What shows others that we
// live is given to it to keep: if we are killed the name must not be had before
// the front has killed the rest.
func announce(s store.Store, leases *holdfast.Leases) {
	if f, err := presence(s, leases); err == nil && f != nil {
		defer f.Close()
		raw, _ := f.SyscallConn()
		raw.Control(func(fd uintptr) { above.tell(message{what: holds}, int(fd)) })
		return
	}
	above.tell(message{what: holds}, -1)
}

// presence is what shows others that we live; nil where there is no such thing.
func presence(s store.Store, leases *holdfast.Leases) (*os.File, error) {
	switch s := s.(type) {
	case *filestore.Store:
		id, err := store.ParseID(held(leases)[0].ID) // all are of one process
		if err != nil {
			return nil, err
		}
		return s.Presence(id.Process())
	case *pgstore.SessionStore:
		return s.Presence()
	}
	return nil, nil
}

// armFront has the front kill all in d unless it is armed anew; endless says
// that the lock does not run out soon after. disarmFront is for when nothing is
// left to kill.
func armFront(d time.Duration, endless bool) {
	above.board.endless.Store(endless)
	above.board.deadline.Store(int64(clock.Boot() + d))
}

func disarmFront() { above.board.deadline.Store(0) }

// codeOfSignal is the exit code of one who ends because of the signal.
func codeOfSignal(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }

// cannotRun is the exit code for a command that could not be started.
func cannotRun(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitCannotRun
}
