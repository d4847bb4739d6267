package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) checkCommand() *cobra.Command {
	var id string
	var token int64
	cmd := &cobra.Command{
		Use:   "check NAME --id ID [--token TOKEN]",
		Short: "Check whether a lock is still held",
		Long: `Check exits with 0 if the hold with this id (and token, if given) still holds
NAME. Otherwise it exits with 76: the hold has ended, has expired, or was broken.
It can end a moment later; only a resource that checks tokens is safe from that.`,
		Example: `  # in a script below run, before something that cannot be undone
  holdfast check "$HOLDFAST_NAME" --id "$HOLDFAST_ID" || exit`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			parsed, err := store.ParseID(id)
			if err != nil {
				return fmt.Errorf("--id: %w", err)
			}
			if cmd.Flags().Changed("token") && token <= 0 {
				return fmt.Errorf("--token %d: a token is positive", token)
			}
			return exit(p.check(cmd.Context(), args[0], parsed, token))
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `ID` of the hold: HOLDFAST_ID below run, or from show")
	cmd.Flags().Int64Var(&token, "token", 0, "the `TOKEN` of the hold: HOLDFAST_TOKEN below run, or from show")
	cmd.MarkFlagRequired("id")
	p.requires(cmd)
	return cmd
}

func (p *program) check(ctx context.Context, name string, id store.ID, token int64) error {
	in, err := p.inspector(p.choose())
	if err != nil {
		return err
	}
	defer in.done()
	state, err := in.one(ctx, name, lookTime)
	if err != nil {
		return err
	}
	why, found := "no hold has this id", false
	for _, e := range state.Entries {
		switch {
		case e.ID != id:
			continue
		case !e.Granted:
			why = "it waits"
		case e.Broken != "":
			why = "broken by an operator: " + e.Broken
		case e.Expires <= 0:
			why = "it has expired"
		case token != 0 && !e.Has(token): // Has: the holder's process may have handed the hold on, or upgraded it
			why = fmt.Sprintf("its token is %d", e.Token)
		default:
			return nil
		}
		found = true
	}
	if !found && len(state.Entries) == 0 {
		why += in.meant(ctx, name)
	}
	return &message{fmt.Sprintf("%s: %s: %s", printable(name), holdfast.ErrLost, why), holdfast.ErrLost}
}

// look returns the state of one name, empty if nobody uses it.
func look(ctx context.Context, in store.Inspector, name string) (state store.State, err error) {
	for s, e := range in.List(ctx, name) {
		state, err = s, e
	}
	return state, err
}

func (p *program) waitCommand() *cobra.Command {
	var try bool
	var bound duration
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until nobody holds a name",
		Long: `Wait until nobody holds NAME. This takes no lock: another may take it a moment
later. With -n or -w the exit code is 75 if NAME is still held.`,
		Example: `  holdfast wait deploy -w 10m && echo 'no deployment is running'`,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			var limit time.Duration = -1 // none
			if try || cmd.Flags().Changed("wait") {
				limit = time.Duration(bound)
			}
			return exit(p.wait(cmd.Context(), args[0], limit))
		},
	}
	cmd.Flags().BoolVarP(&try, "nonblock", "n", false, "do not wait")
	cmd.Flags().VarP(&bound, "wait", "w", "wait at most `DUR`; 0 is -n")
	p.requires(cmd)
	p.exclude(cmd, "nonblock", "wait")
	return cmd
}

// wait waits until nobody holds the name, for at most limit; a negative limit is no bound.
func (p *program) wait(ctx context.Context, name string, limit time.Duration) error {
	in, err := p.inspector(p.choose())
	if err != nil {
		return err
	}
	defer in.done()
	return in.waitFree(ctx, name, limit)
}

// waitFree reads the name with growing pauses until nobody holds it, for at most limit; a
// negative limit is no bound.
func (in *inspected) waitFree(ctx context.Context, name string, limit time.Duration) error {
	end := time.Now().Add(limit)
	var holders []line // as last seen
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 800*time.Millisecond) {
		patience := lookTime
		if limit > 0 {
			patience = min(patience, max(time.Until(end), 100*time.Millisecond))
		}
		state, err := in.one(ctx, name, patience)
		switch {
		case err == nil:
			holders = linesOf([]store.State{inTheWay(state)}, time.Now())
		case patience == lookTime || len(holders) == 0 || !errors.Is(err, context.DeadlineExceeded):
			return err
		default: // this read had little time, and an earlier one was answered
		}
		left := time.Until(end)
		switch {
		case len(holders) == 0:
			return nil
		case limit >= 0 && left <= 0:
			text := aboutHolders(printable(name), []*string{&holders[0].Owner.Note}, func() string { return fmt.Sprintf("%s by %s", holdfast.ErrHeld, summary(holders)) })
			return &message{text, holdfast.ErrHeld}
		case limit >= 0:
			pause = min(pause, left)
		}
		time.Sleep(pause)
	}
}

// inTheWay returns the state with only the entries that block others: holds, and ended holds that
// keep the name taken.
func inTheWay(s store.State) store.State {
	var entries []store.Entry
	for _, e := range s.Entries {
		if e.Granted && !e.Freed { //mutant:cmd-freed-is-in-the-way
			entries = append(entries, e)
		}
	}
	s.Entries = entries
	return s
}

// summary describes the first holder, and says how many more there are.
func summary(holders []line) string {
	h := holders[0]
	text := fmt.Sprintf("host %s, pid %s (%s), ", h.Owner.Host, h.Owner.pid(), h.Owner.Program)
	if h.Owner.Note != "" {
		text += strconv.Quote(h.Owner.Note) + ", "
	}
	text += "since " + h.sinceText()
	if more := len(holders) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}
