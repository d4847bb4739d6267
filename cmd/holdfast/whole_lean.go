//go:build holdfast_lean && (linux || darwin)

package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/open/all"
)

// whole is the whole program, if the package has one: its linker sets it.
var whole string

// handOver becomes the whole program if the command line names a store, or a command, that only that has. It is called before the link
// to the front is opened, which the whole program does then.
func handOver(args []string) {
	if whole == "" {
		return // to open the store says what is lacking
	}
	root := newRoot(args)
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.ParseFlags(rest) != nil {
		return // the whole program prints the mistake
	}
	// What can be read only once is for the program that opens the store: the whole one has all of them.
	chosen := choice{by: "HOLDFAST_STORE_FILE"}
	if file, err := os.Stat(os.Getenv(chosen.by)); err != nil || file.Mode().IsRegular() {
		chosen, err = choose(storeURL(root.PersistentFlags().Lookup("store").Value.String()))
		if !leftOut(cmd) && (err != nil || !all.LeftOut(chosen.url)) {
			return
		}
	}
	err = unix.Exec(whole, os.Args, append(os.Environ(), handedEnv+"="+version()))
	what := "the store that " + chosen.by + " names"
	if leftOut(cmd) {
		what = cmd.Name()
	}
	tell("%s is for the whole program, %s: %v", what, whole, err)
	quit(exitInternal)
}
