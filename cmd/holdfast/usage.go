package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is what to say of a command line that cannot be read: what is wrong with it,
// and what was meant, or else where the help is.
func usageError(err error, cmd *cobra.Command, args []string) string {
	text, advice := err.Error(), ""
	switch {
	case !cmd.HasParent() && strings.HasPrefix(text, "unknown command "):
		word := firstWord(args)
		text = fmt.Sprintf("there is no command %.40q", word)
		advice = commandMeant(cmd, word, args)
	case strings.HasPrefix(text, "unknown flag: --"):
		flag, _, _ := strings.Cut(strings.TrimPrefix(text, "unknown flag: --"), "=")
		text = fmt.Sprintf("there is no flag --%.40s", flag)
		if like := similar(flag, flagNames(cmd)); like != "" {
			advice = "did you mean --" + like + "?"
		}
	}
	if advice == "" {
		advice = "see '" + cmd.CommandPath() + " --help'"
	}
	return shorten(plainText(text), lineLength-len(linePrefix)-len(advice)-2) + "; " + advice
}

// commandMeant is what somebody may have meant who wrote a word where the command is to
// be; "" if there is no telling.
func commandMeant(root *cobra.Command, word string, args []string) string {
	if like := similar(word, commandNames(root)); like != "" {
		return fmt.Sprintf("did you mean %q?", like)
	}
	if slices.Contains(args, "--") {
		return fmt.Sprintf("to run a command under a lock: holdfast run %.40s -- COMMAND", printable(word))
	}
	if isURL(word) {
		return "a store is named by --store URL"
	}
	return ""
}

// firstWord is the first argument that is no flag.
func firstWord(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--store":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}

func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return append(names, "help", "completion")
}

func flagNames(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}
