package main

import "os"

// A distribution package has two programs of the same version: a lean one, which starts faster,
// and the whole one beside it, not in PATH. The lean program execs the whole one if it lacks the
// command, or the driver of the store.

// handedEnv passes the version of the lean program, so that the whole one can check that it is
// the same.
const handedEnv = "HOLDFAST_HANDED_OVER"

// wasHandedOver ends the program if a lean program of another version has exec'ed it.
func wasHandedOver() {
	from, ok := os.LookupEnv(handedEnv)
	if !ok {
		return
	}
	os.Unsetenv(handedEnv)
	if from != version() {
		tell("%s of version %s has started this program, which is of version %s: install both from one package", os.Args[0], from, version())
		quit(exitInternal)
	}
}
