//go:build !holdfast_lean

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/holdfast-go/holdfast"
)

// top runs the live view until the user, a signal or an error ends it.
func (p *program) top(every time.Duration) error {
	if !term.IsTerminal(os.Stdin.Fd()) || !term.IsTerminal(os.Stdout.Fd()) || os.Getenv("TERM") == "dumb" {
		return &message{"top: stdin and stdout must be a terminal that can move its cursor; use 'holdfast ls --watch' here", holdfast.ErrInvalid}
	}
	v := &viewer{p: p}
	return runTop(v, every, os.Stdin, os.Stdout, ending(false, nil, nil))
}

// runTop shows the store on a terminal. It restores the terminal, however it ends.
func runTop(s topStore, every time.Duration, in io.Reader, out io.Writer, ends <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	view := tea.NewProgram(newTop(ctx, s, every), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case sig := <-ends:
			go view.Send(endMsg{endedBy(sig)})
		case <-over:
			return
		}
		select {
		case <-time.After(stuckTime):
			view.Kill()
		case <-over:
		}
	}()
	last, err := view.Run()
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		return &message{"top: a defect in holdfast ended it; please report the text above", err}
	case err != nil:
		return fmt.Errorf("top: %w", err)
	}
	return last.(*topModel).end
}

// breakHold breaks a hold that was read.
func (v *viewer) breakHold(ctx context.Context, b holdfast.Break) error { return v.in.breakOne(ctx, b) }

// stuckTime is how long a view may take to end after a signal.
const stuckTime = 2 * time.Second
