//go:build holdfast_lean && (linux || darwin)

package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/open/all"
)

// whole is the path of the full program, if the package has one. The linker sets it.
var whole string

// handOver execs the full program if the command line names a store or a command that only that
// has. It is called before the link to the front is opened: the full program opens it.
func handOver(args []string) {
	if whole == "" {
		return // opening the store reports what is lacking
	}
	root := newRoot(args)
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.ParseFlags(rest) != nil {
		return // the full program prints the mistake
	}
	// A file that can be read only once is left to the full program: it has the drivers of all stores.
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
	tell("%s is for the full program, %s: %v", what, whole, err)
	quit(exitInternal)
}
