// Package front is the process of `holdfast run` that the caller has started and
// sees: it has the signals, the place in the shell's job control, and the exit
// code. The engine is this program started again below it: it reads the flags,
// holds the lease and is the parent of the command. If either dies, or the engine
// is stopped for too long, the other ends the command with all that it has
// started. See docs/decisions/0018-two-processes.md. Link is the engine's end of
// what joins them.
//
// A process becomes the front while this package is initialised, and ends in it. Go
// initialises packages in the order of their paths, each when what it imports has
// been: this one long before the drivers of the stores, which the front does not
// need, as long as it imports only what comes early itself. A test of the command
// bounds what is done until then. See docs/decisions/0029-start-of-the-front.md.
package front

// The exit codes of a front that ends without its engine's word; those of the
// command are the same.
const (
	ExitInternal = 70
	ExitLost     = 76
)
