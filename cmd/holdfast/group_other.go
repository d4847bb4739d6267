//go:build !linux && !darwin

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
)

// Where there are no process groups the command is one process: what it has
// started goes on after it, and it can only be killed, not asked to end.
// Ctrl-C reaches it by the console.
var (
	givesUp   = []os.Signal{os.Interrupt}
	forwarded []os.Signal
)

type group struct {
	cmd    *exec.Cmd
	events chan event
}

type event struct {
	status int
	exited bool
}

func start(path string, argv, env []string) (*group, error) {
	g := &group{
		cmd:    &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		events: make(chan event, 1),
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		g.cmd.Wait()
		g.events <- event{g.cmd.ProcessState.ExitCode(), true}
	}()
	return g, nil
}

func (g *group) stopped(event, func(string, ...any)) {}
func (g *group) handOver()                           {}
func (g *group) signal(os.Signal)                    {}
func (g *group) terminate()                          { g.cmd.Process.Kill() }
func (g *group) kill()                               { g.cmd.Process.Kill() }
func (g *group) gone() bool                          { return true } // asked only once the command has ended
func (g *group) finish(bool)                         {}
func (g *group) interrupted(event) bool              { return false }
func (e event) code() int                            { return e.status }
func (e event) signalled() bool                      { return false }
func interruptOurselves(event)                       {}
func codeOfSignal(os.Signal) int                     { return 130 } // Ctrl-C is the only one
func catchStops() <-chan os.Signal                   { return nil }

func catch(signals ...os.Signal) chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, signals...)
	return c
}

func cannotRun(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}
