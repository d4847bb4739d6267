//go:build !linux && !darwin

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Without process groups the command can only be killed, not asked to end. Ctrl-C reaches it
// through the console. None of this has ever been run.
var givesUp = []os.Signal{os.Interrupt}

type group struct {
	cmd     *exec.Cmd
	killJob func() // kills the command and what it has started
	changed chan os.Signal
	ended   bool
}

type event struct {
	status int
	exited bool
}

func start(path string, argv, env []string, _ bool) (*group, error) {
	g := &group{
		cmd:     &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		changed: make(chan os.Signal, 1),
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	g.killJob = contain(g.cmd.Process)
	go func() {
		g.cmd.Wait()
		g.changed <- os.Interrupt
	}()
	return g, nil
}

// reap is called once the command has ended.
func (g *group) reap() []event {
	g.ended = true
	return []event{{g.cmd.ProcessState.ExitCode(), true}}
}

func (g *group) stopped(event)        {}
func (g *group) signal(os.Signal)     {}
func (g *group) terminate(os.Signal)  { g.killJob() }
func (g *group) kill()                { g.killJob() }
func (g *group) killAll()             { g.killJob() }
func (g *group) gone() bool           { return g.ended }
func (g *group) none() bool           { return g.ended }
func (e event) code() int             { return e.status }
func codeOfSignal(os.Signal) int      { return 130 } // Ctrl-C is the only one
func signalName(sig os.Signal) string { return sig.String() }

// There is one process: nothing kills the command if that is stopped.
func enter()                                   {}
func needFront()                               {}
func frontPID() int                            { return os.Getpid() }
func announce(store.Store, *holdfast.LeaseSet) {}
func armFront(_, _ time.Duration, _ bool)      {}
func disarmFront()                             {}
func guardBelow()                              {}
func quit(code int)                            { os.Exit(code) }

// signals starts to deliver the signals that end the wait, and those for the command.
func signals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, givesUp...)
	return c
}

// signalOf fails: here a command can only be killed.
func signalOf(string) (os.Signal, error) {
	return nil, errors.New("there are no signals on this system")
}

func cannotRun(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}
