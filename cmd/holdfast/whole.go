package main

import "os"

// A package has two programs of one version: a lean one, which starts sooner, and the whole one beside it, out of
// the PATH. The lean one becomes the whole one where a URL names a store whose driver it lacks.

// handedEnv has the version of the lean program, for the whole one to find out that it is of the same.
const handedEnv = "HOLDFAST_HANDED_OVER"

// wasHandedOver ends the program if another version was to go on as it.
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
