package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// uiFlags are the flags of ui.
type uiFlags struct {
	every      duration
	port       uint16
	allowBreak bool
}

// uiCommand exists in the lean program too, which execs the whole one for it.
func (p *program) uiCommand() *cobra.Command {
	f := uiFlags{every: duration(leastPause)}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Watch locks in a browser",
		Long: `Serve a page that shows all names that are in use: who holds them, who waits in
which order, how long each hold has been held and when it expires unless it is
renewed, and which holds were lost since ui was started. It prints the address of
the page, and goes on until a signal ends it.

The page is served on 127.0.0.1 alone, and shows nothing without the token that is
in its address. Give the address only to people who may see the locks. A request
that names another host, or comes from the page of another site, is refused. The
page loads nothing from any other host. To look from another machine, forward the
port; -t ends ui there with ssh here:

  ssh -t -o ExitOnForwardFailure=yes -L 8080:127.0.0.1:8080 HOST holdfast ui --port 8080

The page changes nothing. With --allow-break it has a button that breaks a hold,
as 'holdfast break' does, after a reason and a question.

The store is read once a second, or less often if it is slow, however many look
at the page. If it does not answer, the page says so, and it is read again with
growing pauses. Text of others is shown with its control characters escaped. The
build tag holdfast_lean leaves ui out of the program.`,
		Example: `  holdfast ui
  holdfast ui --port 8080 --allow-break`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if time.Duration(f.every) < leastPause {
				return fmt.Errorf("--every %v: a store is not read more than once a second", time.Duration(f.every))
			}
			return exit(p.ui(f))
		},
	}
	cmd.Flags().Var(&f.every, "every", "read the store every `DUR`, at least 1s")
	cmd.Flags().Uint16Var(&f.port, "port", 0, "serve the page on `PORT` of 127.0.0.1; default any that is free")
	cmd.Flags().BoolVar(&f.allowBreak, "allow-break", false, "let the page break holds")
	for _, name := range []string{"every", "port"} {
		cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}
