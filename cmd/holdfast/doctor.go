package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/store"
)

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a store works, and is safe",
		Long: `Check the store as this user on this host: the server, its version, role, clock
and settings, the rights that this user needs, and what the store promises. Where
something is missing, doctor prints what an administrator can run. It takes no
lock and changes none.

Each line is "ok"; "warning": locks work, but an accident can break them; or
"failure": locks do not work, and why.

Exit codes: 0 the store works, also with warnings; else that of the first failure:
64 the store cannot be used like this; 69 it does not answer; 70 what is stored
is damaged; 77 it refuses this user.`,
		Example: `  holdfast doctor --store redis://localhost:6379
  holdfast doctor --json | jq -r 'select(.level == "warning") | .text'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return exit(p.doctor(cmd.Context(), asJSON)) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

func (p *program) doctor(ctx context.Context, asJSON bool) error {
	chosen, err := choose(p.store)
	if err != nil {
		return err
	}
	d := diagnosis{begin: time.Now()}
	if s, err := chosen.openWithin(lookTime, d.begin); err != nil {
		d.find(store.Finding{About: "store", Err: err})
	} else {
		defer closeSoon(s)
		d.examine(ctx, s)
	}
	if d.unreachable() {
		const before = "failure  server  " // how its line begins
		text := say(d.failed, "", d.store, time.Since(d.begin)).Error()
		d.lines = []diagnosed{{store.LevelFailure, "server", shorten(plainText(text), lineLength-len(before)), ""}}
		d.store = ""
	}
	if asJSON {
		err = writeJSON(os.Stdout, d.lines...)
	} else {
		err = d.print(os.Stdout)
	}
	if err == nil && d.failed != nil {
		return &exitError{code: codeOf(d.failed)} // it was printed
	}
	return err
}

// A diagnosis is what doctor prints. docs/stability.md promises the JSON.
type diagnosis struct {
	store  string
	lines  []diagnosed
	failed error // the first failure
	begin  time.Time
}

type diagnosed struct {
	Level store.Level `json:"level"` // or levelPromise
	About string      `json:"about"`
	Text  string      `json:"text"`
	Run   string      `json:"run,omitempty"`
}

// levelPromise marks what the store promises, whatever was found.
const levelPromise = store.Level("promise")

func (d *diagnosis) find(f store.Finding) {
	d.lines = append(d.lines, diagnosed{f.Level(), f.About, f.Text(), f.Run})
	if d.failed == nil {
		d.failed = f.Err
	}
}

// unreachable reports whether the store does not answer and nothing else was found.
func (d *diagnosis) unreachable() bool {
	return d.failed != nil && codeOf(d.failed) == exitUnavailable && d.store != "" && !slices.ContainsFunc(d.lines, func(l diagnosed) bool { //mutant:cmd-doctor-one-line
		return l.Level == store.LevelOK
	})
}

// lookFor bounds each check.
const lookFor = 10 * time.Second

func (d *diagnosis) examine(ctx context.Context, s store.Store) {
	desc := s.Describe()
	d.store = desc.Store
	if c, ok := s.(store.Checker); ok {
		for _, f := range checked(ctx, c) {
			d.find(f)
		}
	}
	if d.failed == nil {
		d.try(ctx, s, desc)
	}
	for _, p := range promises(desc) {
		d.lines = append(d.lines, diagnosed{Level: levelPromise, About: p[0], Text: p[1]})
	}
}

// checked returns the store's findings, or that it does not answer: some drivers ignore their
// contexts.
func checked(ctx context.Context, c store.Checker) []store.Finding {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found := make(chan []store.Finding, 1)
	go func() { found <- c.Check(ctx) }()
	select {
	case all := <-found:
		return all
	case <-time.After(lookTime + 500*time.Millisecond):
		return []store.Finding{{About: "server", Err: errSilent}}
	}
}

// try uses the store as locks do, as far as that writes nothing.
func (d *diagnosis) try(ctx context.Context, s store.Store, desc store.Description) {
	me := store.NewProcess()
	within := func(about string, do func(context.Context) store.Finding) {
		ctx, cancel := context.WithTimeout(ctx, lookFor)
		defer cancel()
		f := do(ctx)
		f.About = about
		d.find(f)
	}
	if l, ok := s.(store.Poller); ok {
		within("reading a name", func(ctx context.Context) store.Finding {
			ttl := min(max(desc.MinTTL, 30*time.Second), desc.MaxTTL)
			claim := store.Claim{
				Name: "holdfast-doctor", ID: me.NewID(), Limit: store.Full, Weight: store.Full,
				Try: true, TTL: ttl, PositionTTL: min(ttl, store.MaxPositionTTL),
			}
			begin := time.Now()
			if _, err := l.Poll(ctx, claim); err != nil {
				return store.Finding{Err: err}
			}
			return store.Finding{Found: "answered in " + time.Since(begin).Round(10*time.Microsecond).String()}
		})
	}
	if d.failed != nil {
		return // what follows would fail as well
	}
	if w, ok := s.(store.Watcher); ok {
		within("waking waiters", func(ctx context.Context) store.Finding {
			if err := w.Watch(ctx, me, func(store.Notification) {}); err != nil {
				f := store.Finding{Warning: true, Found: "they poll instead, as there are no notifications: " + err.Error()}
				if fix := fixable(nil); errors.As(err, &fix) { //mutant:cmd-doctor-grants-waking
					f.Run = fix.Run()
				}
				return f
			}
			return store.Finding{Found: "by notifications"}
		})
	} else {
		d.find(store.Finding{About: "waking waiters", Found: "they poll: this store has no notifications"})
	}
	if in, ok := s.(store.Inspector); ok {
		within("ls, show, check, break", func(ctx context.Context) store.Finding { return d.list(ctx, in) })
	}
}

// A fixable error has commands that an administrator can run against it. One is redisstore's, for
// a user that may not subscribe. It is an interface because the command imports no store.
type fixable interface {
	error
	Run() string
}

// list reads all names.
func (d *diagnosis) list(ctx context.Context, in store.Inspector) store.Finding {
	names, wrong := 0, []error{}
	for _, err := range in.List(ctx, "") {
		if err != nil {
			wrong = append(wrong, err)
		} else {
			names++
		}
	}
	switch used := fmt.Sprintf("names in use: %d", names); len(wrong) {
	case 0:
		return store.Finding{Found: used}
	case 1:
		return store.Finding{Warning: true, Found: fmt.Sprintf("%s; not all could be read: %v", used, wrong[0])}
	default:
		return store.Finding{Warning: true, Found: fmt.Sprintf("%s; %d could not be read, the first: %v", used, len(wrong), wrong[0])}
	}
}

// promises returns what a Description says, as text.
func promises(d store.Description) [][2]string {
	loses, tokens := "nothing", "each larger than all before, always"
	if d.Loses != "" {
		loses = d.Loses
	}
	if d.Tokens != "" {
		tokens = "each larger than all before; one can be smaller " + d.Tokens
	}
	longest := d.MaxTTL.String()
	if day := 24 * time.Hour; d.MaxTTL >= day && d.MaxTTL%day == 0 {
		longest = fmt.Sprintf("%d days", d.MaxTTL/day)
	}
	ttl := fmt.Sprintf("%v to %s, in steps of %v", d.MinTTL, longest, d.Tick)
	if d.MaxTTL == 0 { //mutant:cmd-no-ttl
		ttl = "none: a hold lasts as long as its session"
	}
	all := [][2]string{
		{"TTL", ttl},
		{"a killed holder", "its names come free " + string(d.Crash)},
		{"loses", loses},
		{"tokens", tokens},
	}
	if d.Unsure != "" {
		all = append(all, [2]string{"a try", "can take as long as the holder's TTL to be refused " + d.Unsure})
	}
	if d.Late > 0 {
		all = append(all, [2]string{"minimum hold", fmt.Sprintf("ends up to %v late, never early; so does a lock delay", d.Late)})
	}
	if len(d.Forgets) > 0 {
		var accidents []string
		for _, a := range d.Forgets {
			accidents = append(accidents, string(a))
		}
		all = append(all, [2]string{"two holders", "possible, after: " + strings.Join(accidents, ", ")})
	}
	for _, p := range slices.Sorted(maps.Keys(d.Lacks)) {
		all = append(all, [2]string{"lacks " + string(p), d.Lacks[p]})
	}
	return all
}

func (d *diagnosis) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if d.store != "" {
		fmt.Fprintf(t, "%s\n\n", d.store)
	}
	warnings, promised := 0, false
	var run []string
	for _, l := range d.lines {
		l.Text = plainText(l.Text)
		if l.Level == levelPromise && !promised {
			promised = true
			fmt.Fprint(t, "\nIt promises:\n\n")
		}
		if l.Level == store.LevelWarning {
			warnings++
		}
		if l.Level == levelPromise {
			fmt.Fprintf(t, "%s\t%s\n", l.About, l.Text)
		} else {
			fmt.Fprintf(t, "%s\t%s\t%s\n", l.Level, l.About, l.Text)
		}
		if l.Run != "" {
			run = append(run, l.Run)
		}
	}
	if len(run) > 0 {
		fmt.Fprintf(t, "\nTo fix it, an administrator can run:\n\n%s\n", strings.Join(run, "\n"))
	}
	if d.failed != nil && d.store == "" { // one line says it
		return t.Flush()
	}
	verdict := "This store works."
	switch {
	case d.failed != nil:
		verdict = "This store does not work."
	case warnings > 0:
		verdict = fmt.Sprintf("This store works. Warnings: %d.", warnings)
	}
	fmt.Fprintln(t, "\n"+verdict)
	return t.Flush()
}
