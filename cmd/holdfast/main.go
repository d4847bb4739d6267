// Command holdfast runs commands under locks that hold across processes and machines, and shows
// and breaks such locks. See docs/operate.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
)

// The command is started on the main thread, which the main goroutine keeps: if the command dies
// with its parent, that parent is the thread.
func init() { runtime.LockOSThread() }

func main() {
	handOver(os.Args[1:])
	enter()
	wasHandedOver()
	quit(execute(os.Args[1:]))
}

// execute runs the program and returns its exit code.
func execute(args []string) int {
	root := newRoot(args)
	root.SetArgs(args)
	ownHelp(root, args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if coded := (*exitError)(nil); errors.As(err, &coded) {
		if coded.err != nil {
			fmt.Fprintln(os.Stderr, asLine(coded.err.Error()))
		}
		return coded.code
	}
	fmt.Fprintln(os.Stderr, asLine(usageError(err, cmd)))
	return exitUsage
}

func newRoot(args []string) *cobra.Command {
	p := &program{args: args}
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run commands under locks that hold across processes and machines",
		Long: `holdfast runs a command while it holds a lock. It also shows who holds what, and
takes locks away.

A lock is a name in a store. The store is the first of these that is set:
--store URL, the URL in HOLDFAST_STORE, the one line of the file that
HOLDFAST_STORE_FILE names, the one line of /etc/holdfast/store. If none is set,
the locks are files of this host: in /run/holdfast for root, in
~/.local/state/holdfast for other users. The stores and their URLs ('holdfast stores' has the options too):

` + storeList(false) + `
Put a URL with a password in a file, not on the command line.`,
		Example: `  holdfast run nightly -- backup.sh
  holdfast run nightly -n --skip-ok -- backup.sh
  holdfast ls
  holdfast show nightly`,
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // inOwnWords has our own
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.version {
				_, err := fmt.Println(versionLine())
				return exit(err)
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().Var(&p.store, "store", "`URL` of the store that keeps the locks; 'holdfast stores' lists them")
	root.Flags().BoolVar(&p.version, "version", false, "print the version, its commit and its date")
	root.AddCommand(p.runCommand(), p.holdCommand(), p.lsCommand(), p.showCommand(), p.checkCommand(), p.waitCommand(), p.askCommand(), p.breakCommand(), versionCommand())
	root.AddCommand(p.doctorCommand(), p.topCommand(), p.uiCommand(), storesCommand(), p.proveCommand(), proveChildCommand())
	root.AddCommand(metricsWriter())
	p.complete(root)
	p.inOwnWords(root)
	return root
}

// A program has what all commands share.
type program struct {
	args   []string // as typed
	store  storeURL // --store
	shares bool     // --require-store

	excluded []exclusion

	version bool // --version
}

// requires adds --require-store to a command that locks, or whose answer is relied on like a
// lock.
func (p *program) requires(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.shares, "require-store", false, "exit 64 if only this host can use the store: files, or no store is named")
}

// choose returns the store for such a command.
func (p *program) choose() (choice, error) {
	c, err := choose(p.store)
	if err == nil {
		err = c.require(p.shares)
	}
	return c, err
}

// dashes reports whether the command line has a -- argument.
func (p *program) dashes() bool { return slices.Contains(p.args, "--") }
