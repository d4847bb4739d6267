package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) breakCommand() *cobra.Command {
	var b holdfast.Break
	cmd := &cobra.Command{
		Use:   "break NAME [flags]",
		Short: "Take a lock away from its holder",
		Long: `Break ends one hold: it cannot be renewed any more. The holder learns who did it
and why at its next renewal; run then stops its command and exits with 76. The
next waiter gets the lock when the hold has expired, so a holder that keeps to
its deadline has stopped by then.

With --now the next waiter gets the lock at once. The old holder does not know
before its next renewal and may work until then: only a resource that checks
tokens is safe. Use it when you know that the holder is gone.

At a terminal, break shows the holder of NAME, asks for the reason, and asks
before it does anything. In a script, name the hold by --id and --token from
'holdfast show NAME': another hold that came meanwhile is never hit.`,
		Example: `  holdfast break nightly
  holdfast break nightly --id 5f0c… --token 1790000000000000 --reason 'host web-3 is being replaced'`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			b.Name = args[0]
			f := cmd.Flags()
			byHand := !f.Changed("id") && !f.Changed("token")
			if text := b.By + ": " + b.Reason; b.By != "" && len(text) > store.MaxReason {
				return fmt.Errorf("--by and --reason have %d bytes, at most %d are kept", len(text)-2, store.MaxReason-2)
			} else if len(b.Reason) > store.MaxReason {
				return fmt.Errorf("--reason has %d bytes, at most %d are kept", len(b.Reason), store.MaxReason)
			}
			switch {
			case byHand && !canAsk():
				return fmt.Errorf("no terminal to ask at: name the hold by --id and --token from 'holdfast show %s', and --reason", printable(b.Name))
			case byHand:
				return exit(p.askAndBreak(cmd.Context(), b))
			}
			if _, err := store.ParseID(b.ID); err != nil {
				return fmt.Errorf("--id: %w", err)
			}
			switch {
			case b.Token <= 0:
				return fmt.Errorf("--token %d: a token is positive", b.Token)
			case blank(b.Reason):
				return errors.New("--reason is empty: tell the holder why")
			}
			return exit(p.breakHold(cmd.Context(), b))
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.ID, "id", "", "the `ID` of the hold, from show")
	f.Int64Var(&b.Token, "token", 0, "the `TOKEN` of the hold, from show")
	f.StringVar(&b.Reason, "reason", "", "why, in a few words (`TEXT`), for the holder and its log")
	f.StringVar(&b.By, "by", "", "`WHO` does it, for the holder and its log; default the user and the host")
	f.BoolVar(&b.Now, "now", false, "let the next waiter have the lock at once")
	return cmd
}

func (p *program) breakHold(ctx context.Context, b holdfast.Break) error {
	in, err := p.inspector(choose(p.store))
	if err != nil {
		return err
	}
	defer in.done()
	return in.breakIt(ctx, b)
}

// breakOne breaks the hold, and rewords the error.
func (in *inspected) breakOne(ctx context.Context, b holdfast.Break) error {
	name := printable(b.Name)
	if err := in.broken(ctx, b); err != nil {
		return err
	}
	switch err := in.change(ctx, func(ctx context.Context) error { return in.locks.Break(ctx, b) }); {
	case errors.Is(err, holdfast.ErrLost):
		return &message{fmt.Sprintf("%s: there is no such hold; see 'holdfast show %s'%s", name, name, in.meant(ctx, b.Name)), err}
	case errors.Is(err, holdfast.ErrUnavailable):
		return &message{say(err, b.Name, in.where, lookTime).Error() + "; it may be broken or not: see 'holdfast show'", err}
	default:
		return say(err, b.Name, in.where, lookTime)
	}
}

// errBroken is the error for a hold that is already broken.
var errBroken = fmt.Errorf("%w: already broken", holdfast.ErrInvalid)

// broken returns errBroken if the hold is already broken: a second reason would replace the one
// that its holder may have read. A broken hold can still be freed by --now.
func (in *inspected) broken(ctx context.Context, b holdfast.Break) error {
	state, err := in.one(ctx, b.Name, lookTime)
	switch {
	case errors.Is(err, holdfast.ErrUnavailable): // a break would take as long again, and its outcome would be unknown
		return err
	case err != nil:
		return nil // the break itself reports the error
	}
	for _, e := range state.Entries {
		if e.ID.String() == b.ID && e.Has(b.Token) && e.Broken != "" && (!b.Now || e.Freed) { //mutant:cmd-first-reason-is-kept
			return &message{fmt.Sprintf("%s: already broken by %s", printable(b.Name), e.Broken), errBroken}
		}
	}
	return nil
}

// breakIt breaks the hold and prints when the next waiter gets the lock.
func (in *inspected) breakIt(ctx context.Context, b holdfast.Break) error {
	name := printable(b.Name)
	switch err := in.breakOne(ctx, b); {
	case errors.Is(err, errBroken):
		tell("%v", err)
		return nil
	case err != nil:
		return err
	case b.Now:
		tell("%s: free now; the old holder may work until its next renewal: only a check of the token protects", name)
		return nil
	}
	state, err := in.one(ctx, b.Name, lookTime)
	if err != nil {
		return nil // the break succeeded; the time is only a courtesy
	}
	for _, e := range state.Entries {
		if e.ID.String() == b.ID {
			fmt.Fprintf(os.Stdout, "%s: broken; the next waiter gets the lock when the hold has expired, in %v\n", name, e.Ends.Round(100*time.Millisecond))
			return nil
		}
	}
	return nil
}
