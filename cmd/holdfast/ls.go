package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) lsCommand() *cobra.Command {
	var asJSON bool
	var every duration
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List who holds locks and who waits",
		Long: `List all names that are in use: first their holders, then the waiters, in the
order in which they will be served.

The state of a line is "held"; "broken": an operator has broken the hold, and it
is not renewed any more; "freed": broken with --now, so it keeps nobody out, and
is shown until its holder knows; "expired": its holder has ended, but the name
stays taken, by --at-least-for or a lock delay; or "waiting".

With --watch, ls goes on until a signal ends it, and then exits with 128+N. At a
terminal it draws the list again after each read. In a pipe it prints the whole
list whenever a holder or a waiter has come, gone or changed state; with --json
such a list is one line: an object with "time" and "entries". A renewal is no
change. A store that does not answer is reported once, and read again with
growing pauses. If a part of it does not answer, the rest is drawn at a terminal,
and nothing is printed in a pipe. A slow store is read less often.`,
		Example: `  holdfast ls
  holdfast ls --watch=5s
  holdfast ls --json | jq -r 'select(.state == "held") | .name'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.Flags().Changed("watch") {
				return fmt.Errorf("ls takes no argument; write --watch=%.20s", args[0])
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("watch") {
				if time.Duration(every) < leastPause {
					return fmt.Errorf("--watch=%v: a store is not read more than once a second", time.Duration(every))
				}
				return exit(p.watchList(cmd.Context(), time.Duration(every), asJSON))
			}
			return exit(p.list(cmd, "", asJSON))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	cmd.Flags().Var(&every, "watch", "go on, and read the store again every `DUR` (1s if only --watch is given)")
	cmd.Flags().Lookup("watch").NoOptDefVal = "1s"
	cmd.RegisterFlagCompletionFunc("watch", cobra.NoFileCompletions)
	return cmd
}

func (p *program) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show everything about one name",
		Long: `Show who holds NAME and who waits for it, with the ids and tokens that check and
break need. The states are those of ls.`,
		Example: `  holdfast show nightly
  holdfast show nightly --json`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error { return exit(p.list(cmd, args[0], asJSON)) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

// oneName checks that there is one argument, a name.
func oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return fmt.Errorf("want one NAME, got %d", len(args))
	case args[0] == "":
		return errors.New("the name is empty")
	case isURL(args[0]): //mutant:cmd-url-is-no-name
		return errNameIsURL
	}
	return nil
}

// list prints the name, or all names if it is empty. It reports what cannot be read, and
// continues.
func (p *program) list(cmd *cobra.Command, name string, asJSON bool) error {
	in, err := p.inspector(choose(p.store))
	if err != nil {
		return err
	}
	defer in.done()
	states, errs := in.all(cmd.Context(), name, lookTime)
	lines := linesOf(byName(states), time.Now())
	switch {
	case asJSON:
		err = writeJSON(os.Stdout, lines...)
	case len(lines) > 0 && name == "":
		err = printTable(os.Stdout, lines, 0)
	case len(lines) > 0:
		err = printOne(os.Stdout, lines, states[0].Last)
	case len(errs) == 0 && name == "":
		tell("no lock is in use on %s", in.where)
	case len(errs) == 0:
		tell("%s: nobody holds it or waits for it on %s%s", printable(name), in.where, in.meant(cmd.Context(), name))
	}
	if err != nil {
		return err
	}
	return oneOf(errs)
}

// oneOf returns one error for several, which says how many there are.
func oneOf(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return &message{fmt.Sprintf("%v (and %d more that could not be read: see 'holdfast doctor')", errs[0], len(errs)-1), errs[0]}
}

// meant suggests a name in use that is similar to one that is not, as the end of a sentence.
func (in *inspected) meant(ctx context.Context, name string) string {
	states, _ := in.all(ctx, "", time.Second)
	var names []string
	for _, s := range states {
		if s.Name == name {
			return ""
		}
		names = append(names, s.Name)
	}
	if like := similar(name, names); like != "" {
		return fmt.Sprintf("; did you mean %q?", like)
	}
	return ""
}

func byName(states []store.State) []store.State {
	slices.SortFunc(states, func(a, b store.State) int { return cmp.Compare(a.Name, b.Name) })
	return states
}

// A line is one entry as ls and show print it. docs/stability.md promises the
// JSON.
type line struct {
	Name    string        `json:"name"`
	Mode    string        `json:"mode"`  // write, read, upgradeable, or slots
	State   string        `json:"state"` // held, broken, freed, expired, waiting
	ID      string        `json:"id"`
	Token   int64         `json:"token"` // 0 while waiting
	Weight  int64         `json:"weight"`
	Limit   int64         `json:"limit"`
	Owner   owner         `json:"owner"`
	Since   string        `json:"since"`      // of the grant, RFC 3339; empty while waiting
	Expires int64         `json:"expires_ms"` // until it is free or lapses, unless renewed
	Broken  string        `json:"broken,omitempty"`
	Newest  int64         `json:"newest_token,omitempty"` // if it was handed on inside its process, or upgraded
	Upgrade bool          `json:"upgrading,omitempty"`    // it waits to become a write lock, and blocks new claims
	since   time.Time     // the same as Since
	age     time.Duration // for how long it had been held when it was read
}

type owner struct {
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Program   string `json:"program"`
	Note      string `json:"note"`
	Container bool   `json:"container,omitempty"` // the pid is of another pid namespace of this host
}

func linesOf(states []store.State, now time.Time) (lines []line) {
	for _, s := range states {
		for _, e := range s.Entries {
			l := line{
				Name: s.Name, Mode: mode(s.Limit, e.Weight), State: stateOf(&e),
				ID: e.ID.String(), Token: e.Token, Weight: e.Weight, Limit: s.Limit,
				Owner: ownerOf(e.Owner), Expires: e.Expires.Milliseconds(), Broken: e.Broken,
			}
			if newest := max(e.Used, e.UpgradeToken); newest > e.Token {
				l.Newest = newest
			}
			l.Upgrade = e.Want > e.Weight
			if l.State == "expired" {
				l.Expires = e.Ends.Milliseconds()
			}
			if e.Granted {
				l.since, l.age = now.Add(-e.Age), e.Age
				l.Since = l.since.Format(time.RFC3339Nano)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func ownerOf(o holdfast.Owner) owner {
	self := holdfast.ThisProcess()
	return owner{
		Host: o.Host, PID: o.PID, Program: o.Program, Note: o.Note,
		Container: o.Host == self.Host && o.Space != self.Space,
	}
}

func mode(limit, weight int64) string {
	switch {
	case limit != store.Full:
		return "slots"
	case weight == store.Full:
		return "write"
	case weight == store.Upgradeable:
		return "upgradeable"
	}
	return "read"
}

func stateOf(e *store.Entry) string {
	switch {
	case !e.Granted:
		return "waiting"
	case e.Freed: //mutant:cmd-freed-is-held
		return "freed"
	case e.Broken != "":
		return "broken"
	case e.Expires <= 0:
		return "expired"
	}
	return "held"
}

// nameColumn is the most columns that a name gets if all rows must fit a terminal.
const nameColumn = 32

// printTable prints a row for each line, with the whole name unless columns bounds it.
func printTable(w io.Writer, lines []line, columns int) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tMODE\tSTATE\tHOST\tPID\tPROGRAM\tSINCE\tEXPIRES\tNOTE")
	for _, l := range lines {
		name := printable(l.Name)
		if columns > 0 { //mutant:cmd-name-column-is-bounded
			name = fit(name, columns)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, l.kind(), l.State,
			l.Owner.Host, l.Owner.pid(), l.Owner.Program, l.sinceText(), l.expiresText(), l.Owner.Note)
	}
	return t.Flush()
}

// printOne prints a block for each entry of one name: ids are long, and meant to be copied.
func printOne(w io.Writer, lines []line, last int64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "name:\t%s\n", printable(lines[0].Name))
	fmt.Fprintf(t, "newest token:\t%d\n", last)
	for _, l := range lines {
		fmt.Fprintf(t, "\n%s:\t%s\n", l.State, l.kind())
		fmt.Fprintf(t, "  owner:\thost %s, pid %s (%s)\n", l.Owner.Host, l.Owner.pid(), l.Owner.Program)
		if l.Owner.Note != "" {
			fmt.Fprintf(t, "  note:\t%s\n", l.Owner.Note)
		}
		fmt.Fprintf(t, "  id:\t%s\n", l.ID)
		if l.State != "waiting" {
			fmt.Fprintf(t, "  token:\t%d\n", l.Token)
			if l.Newest != 0 {
				fmt.Fprintf(t, "  newest of it:\t%d\n", l.Newest)
			}
			fmt.Fprintf(t, "  since:\t%s\n", l.sinceText())
		}
		if l.Broken != "" {
			fmt.Fprintf(t, "  broken:\t%s\n", plainText(l.Broken)) //mutant:cmd-reason-is-plain
		}
		label := map[string]string{"waiting": "lapses in", "expired": "free in", "freed": "forgotten in"}[l.State]
		fmt.Fprintf(t, "  %s:\t%s\n", cmp.Or(label, "expires in"), l.expiresText())
	}
	return t.Flush()
}

// kind returns the mode, with the slots that it takes.
func (l *line) kind() string {
	if l.Mode == "slots" {
		return fmt.Sprintf("slots %d/%d", l.Weight, l.Limit)
	}
	return l.Mode
}

func (l *line) sinceText() string {
	if l.since.IsZero() {
		return "-"
	}
	layout := time.DateTime
	if l.age < 12*time.Hour {
		layout = time.TimeOnly
	}
	return fmt.Sprintf("%s (%s)", l.since.Format(layout), l.age.Round(time.Second))
}

func (l *line) expiresText() string {
	d := time.Duration(l.Expires) * time.Millisecond
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (o owner) pid() string {
	if o.Container {
		return strconv.Itoa(o.PID) + " (in another container)"
	}
	return strconv.Itoa(o.PID)
}

// printable quotes a name that would not show as it is.
func printable(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
