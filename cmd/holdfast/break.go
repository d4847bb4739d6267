package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) breakCommand() *cobra.Command {
	var b holdfast.Break
	cmd := &cobra.Command{
		Use:   "break NAME --id ID --token TOKEN --reason TEXT",
		Short: "Take a hold away from its holder",
		Long: `Break refuses all further renewals of one hold, and tells its holder who did it, and why:
run then ends its command and exits with 76. The next gets in when the hold has
expired, so a holder that obeys its deadline has stopped by then.

With --now the next gets in at once. The old holder does not know of it before
its next renewal and may work on until then: only a resource that checks tokens
is safe. Use it when you know that the holder is gone.

The id and the token are in the output of show: a hold that came meanwhile is
never hit.`,
		Example: `  holdfast show nightly
  holdfast break nightly --id 5f0c… --token 1790000000000000 --reason 'host web-3 is being replaced'`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			b.Name = args[0]
			if _, err := store.ParseID(b.ID); err != nil {
				return fmt.Errorf("--id: %w", err)
			}
			switch {
			case b.Token <= 0:
				return fmt.Errorf("--token %d: a token is positive", b.Token)
			case b.Reason == "":
				return errors.New("--reason is empty: say to its holder why")
			}
			return exit(p.breakHold(cmd.Context(), b))
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.ID, "id", "", "the `ID` of the hold, from show")
	f.Int64Var(&b.Token, "token", 0, "the `TOKEN` of the hold, from show")
	f.StringVar(&b.Reason, "reason", "", "why, in a few words (`TEXT`), for the holder and its log")
	f.StringVar(&b.By, "by", "", "`WHO` does it, for the holder and its log; default the user and the host")
	f.BoolVar(&b.Now, "now", false, "let the next in at once")
	for _, required := range []string{"id", "token", "reason"} {
		cmd.MarkFlagRequired(required)
	}
	return cmd
}

func (p *program) breakHold(ctx context.Context, b holdfast.Break) error {
	s, _, err := p.inspector(choose(p.store))
	if err != nil {
		return err
	}
	locks, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Close()
		return err
	}
	defer locks.Close()
	switch err := locks.Break(ctx, b); {
	case errors.Is(err, holdfast.ErrLost):
		return fmt.Errorf("%w: there is no such hold, see 'holdfast show'", err)
	case err != nil:
		return err
	case b.Now:
		tell("warning: %q is free. Its holder may work on until its next renewal: only the token protects now", b.Name)
		return nil
	}
	state, err := locks.Look(ctx, b.Name)
	if err != nil {
		return nil // it was broken; when the next gets in is a courtesy
	}
	for _, h := range state.Holders {
		if h.ID == b.ID {
			fmt.Fprintf(os.Stdout, "broken; the next gets in when it has expired, in %v\n", time.Until(h.Ends).Round(100*time.Millisecond))
			return nil
		}
	}
	return nil
}
