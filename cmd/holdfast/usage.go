package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A wrongUse is a mistake in the command line. advice is what was meant, if that can be seen.
type wrongUse struct{ text, advice string }

func (w *wrongUse) Error() string { return w.text }

// usageError returns the message about a command line that cannot be parsed: what is wrong, and
// what was meant, or else where the help is.
func usageError(err error, cmd *cobra.Command) string {
	text, advice := err.Error(), ""
	if wrong := (*wrongUse)(nil); errors.As(err, &wrong) && wrong.advice != "" {
		advice = wrong.advice
	}
	if advice == "" {
		advice = "see '" + cmd.CommandPath() + " --help'"
	}
	return shorten(plainText(text), lineLength-len(linePrefix)-len(advice)-2) + "; " + advice
}

// inOwnWords makes the commands report mistakes in the words of this program, not of the flag
// parser. Our checks run before the parser's.
func (p *program) inOwnWords(root *cobra.Command) {
	root.SetFlagErrorFunc(p.flagError)
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return noCommand(cmd, args[0], p.args)
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return p.checkFlags(cmd) }
}

// ownHelp makes help and completion, which the parser adds, refuse unknown arguments.
func ownHelp(root *cobra.Command, typed []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return noCommand(root, args[len(args)-max(len(rest), 1)], typed)
				}
				return nil
			}
		case "completion":
			cmd.Args = noArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // without RunE, its arguments are not checked
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
		}
	}
}

// noArgs checks the arguments of a command that has only flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	wrong := &wrongUse{text: fmt.Sprintf("%s takes no argument, got %.40q", cmd.Name(), args[0])}
	switch {
	case isURL(args[0]): // which may have a password
		wrong.text, wrong.advice = cmd.Name()+" takes no argument", storeByFlag
	case cmd.Name() == "ls":
		wrong.advice = "for one name: holdfast show NAME"
	}
	return wrong
}

const storeByFlag = "a store is named by --store URL"

// exclude allows only one of two flags.
func (p *program) exclude(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other) // for completion
	p.excluded = append(p.excluded, exclusion{cmd, one, other})
}

type exclusion struct {
	cmd        *cobra.Command
	one, other string
}

// checkFlags finds flags that exclude each other, and required ones that are missing.
func (p *program) checkFlags(cmd *cobra.Command) (err error) {
	for _, e := range p.excluded {
		if e.cmd == cmd && cmd.Flags().Changed(e.one) && cmd.Flags().Changed(e.other) {
			return &wrongUse{text: fmt.Sprintf("--%s and --%s exclude each other: give one", e.one, e.other)}
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			err = &wrongUse{text: "--" + f.Name + " is missing"}
		}
	})
	return err
}

// flagError rewords the parser's error about a flag.
func (p *program) flagError(cmd *cobra.Command, err error) error {
	if word := firstWord(p.args); !cmd.HasParent() && word != "" {
		return noCommand(cmd, word, p.args) // it is not known whose flags they are
	}
	var unknown *pflag.NotExistError
	var lacking *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return &wrongUse{text: "there is no flag -" + unknown.GetSpecifiedName()}
	case errors.As(err, &unknown):
		wrong := &wrongUse{text: fmt.Sprintf("there is no flag --%.40s", unknown.GetSpecifiedName())}
		if like := similar(unknown.GetSpecifiedName(), flagNames(cmd)); like != "" {
			wrong.advice = "did you mean --" + like + "?"
		}
		return wrong
	case errors.As(err, &lacking):
		return &wrongUse{text: "--" + lacking.GetFlag().Name + " needs a value"}
	case errors.As(err, &invalid):
		flag, value := "--"+invalid.GetFlag().Name, printable(invalid.GetValue())
		if value != "" {
			flag += " " + fit(value, 40)
		}
		return &wrongUse{text: flag + ": " + wanted(invalid)}
	}
	return err
}

// wanted returns what the value of a flag must be.
func wanted(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "bool":
		return "want true or false"
	case "uint16":
		return "want a number from 0 to 65535"
	case "int", "int64":
		return "want a whole number"
	case "uint64":
		return "want a whole number, and none below 0"
	}
	return invalid.Unwrap().Error()
}

// noCommand returns the mistake of a word in place of the command.
func noCommand(root *cobra.Command, word string, typed []string) error {
	wrong := &wrongUse{text: fmt.Sprintf("there is no command %.40q", word)}
	names := commandNames(root)
	switch like := similar(word, names); {
	case slices.Contains(names, word) && slices.Index(typed, "--") == 0:
		wrong.text, wrong.advice = fmt.Sprintf("%q comes before --", word), fmt.Sprintf("see 'holdfast %s --help'", word)
	case slices.Contains(names, word):
		wrong.text, wrong.advice = fmt.Sprintf("%q comes before its flags", word), fmt.Sprintf("see 'holdfast %s --help'", word)
	case word == "":
	case like != "":
		wrong.advice = fmt.Sprintf("did you mean %q?", like)
	case isURL(word):
		wrong.text, wrong.advice = "a URL where the command is to be", storeByFlag
	case slices.Contains(typed, "--"):
		wrong.advice = fmt.Sprintf("to run a command under a lock: holdfast run %.40s -- COMMAND", printable(word))
	}
	return wrong
}

// firstWord returns the first argument that is not a flag.
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
	return append(names, "help")
}

func flagNames(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}
