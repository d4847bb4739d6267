package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// topCommand exists in the lean program too, which execs the whole one for it.
func (p *program) topCommand() *cobra.Command {
	every := duration(leastPause)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch locks at a terminal",
		Long: `Show all names that are in use, with who holds them, how many wait, and the time
until each hold expires unless it is renewed. The view follows the store: it is
read once a second, or less often if it is slow. If it does not answer, the last
line says so, and it is asked again with growing pauses.

  up, down, k, j     choose a name; also PgUp, PgDn, Home, End
  Enter              all about the name, with its queue in order; Esc goes back
  /                  show only what contains a text: a name, an owner or a note
  n, a, e, w         sort by name, by age, by expiry, by the number of waiters
  r                  reverse the order
  b                  break the chosen hold, after a reason and a question
  q, Ctrl-C          leave

Break does what 'holdfast break' does. Text of others is shown with its control
characters escaped. The build tag holdfast_lean leaves top out of the program.`,
		Example: `  holdfast top
  holdfast top --every 5s`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if time.Duration(every) < leastPause {
				return fmt.Errorf("--every %v: a store is not read more than once a second", time.Duration(every))
			}
			return exit(p.top(time.Duration(every)))
		},
	}
	cmd.Flags().Var(&every, "every", "read the store every `DUR`, at least 1s")
	cmd.RegisterFlagCompletionFunc("every", cobra.NoFileCompletions)
	return cmd
}
