//go:build holdfast_lean

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// leftOut reports whether only the full program has the command.
func leftOut(cmd *cobra.Command) bool { return cmd.Name() == "top" || cmd.Name() == "ui" }

func (p *program) top(time.Duration) error { return without("top") }

func (p *program) ui(uiFlags) error { return without("ui") }

func without(command string) error {
	return &message{command + ": this program was built without it (build tag holdfast_lean); use 'holdfast ls --watch'", holdfast.ErrUnsupported}
}
