package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/store"
)

// completeWithin bounds how long a shell waits for us when somebody presses Tab.
const completeWithin = 500 * time.Millisecond

// completeName completes NAME with the names in use, and the command of run with the programs in
// PATH. The shell completes the rest.
func (p *program) completeName(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Name() == "run" {
		if i := slices.Index(p.args, "--"); i >= 0 && i == len(p.args)-2 { // the last argument is the word
			return commandsLike(word), cobra.ShellCompDirectiveDefault
		}
	}
	if len(args) > 0 {
		if cmd.Name() == "run" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	last := ""
	for _, l := range p.peek("") {
		if l.Name != last && printable(l.Name) == l.Name {
			names = append(names, cobra.CompletionWithDesc(l.Name, describe(l)))
		}
		last = l.Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// commandsLike returns the programs in PATH that begin with the word; none if it is a path, which
// the shell completes.
func commandsLike(word string) (found []cobra.Completion) {
	if strings.ContainsRune(word, filepath.Separator) {
		return nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), word) {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, f.Name()))
			if err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows") {
				found = append(found, f.Name())
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// completeHold completes a flag from the holds of NAME.
func (p *program) completeHold(tell func(line) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 && args[0] != "" {
			for _, l := range p.peek(args[0]) {
				if l.Token > 0 {
					found = append(found, cobra.CompletionWithDesc(tell(l), describe(l)))
				}
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func idOf(l line) string    { return l.ID }
func tokenOf(l line) string { return strconv.FormatInt(l.Token, 10) }

func describe(l line) string {
	return fmt.Sprintf("%s, host %s, pid %s (%s)", l.State, l.Owner.Host, l.Owner.pid(), l.Owner.Program)
}

// peek returns what ls shows, or nothing if that fails or takes too long: errors must not appear
// at a prompt.
func (p *program) peek(name string) []line {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	found := make(chan []line, 1)
	go func() {
		in, err := p.inspector(choose(p.store))
		if err != nil {
			cancel()
			return
		}
		defer in.done()
		var states []store.State
		for state, err := range in.List(ctx, name) {
			if err == nil {
				states = append(states, state)
			}
		}
		found <- linesOf(byName(states), time.Now())
	}()
	select {
	case lines := <-found:
		return lines
	case <-ctx.Done():
		return nil
	}
}

// complete makes the commands complete their names and flags.
func (p *program) complete(root *cobra.Command) {
	holds := map[string]cobra.CompletionFunc{"id": p.completeHold(idOf), "token": p.completeHold(tokenOf)}
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "run", "hold", "show", "check", "wait", "ask", "break":
			cmd.ValidArgsFunction = p.completeName
		}
		for name, complete := range holds {
			if cmd.Flags().Lookup(name) != nil {
				cmd.RegisterFlagCompletionFunc(name, complete)
			}
		}
	}
}
