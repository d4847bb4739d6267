// Package front is the process of `holdfast run` that the caller starts and sees: it has the
// signals, the job control of the shell, and the exit code. The engine is this program started
// again as its child: it reads the flags, holds the lease and is the parent of the command. If
// either dies, or the engine is stopped for too long, the other kills the command and everything
// that it has started. See docs/decisions/0018-two-processes.md. Link is the engine's end of the
// connection between the two.
//
// A process becomes the front while this package is initialized, and exits from there. Go
// initializes packages in the order of their paths, each after its imports. As long as this
// package imports only early ones, it comes long before the drivers of the stores, which the
// front does not need. A test of the command bounds what is initialized before it. See
// docs/decisions/0029-start-of-the-front.md.
package front

// The exit codes of a front whose engine has reported none. They are the same as those of the
// command holdfast.
const (
	ExitInternal = 70
	ExitLost     = 76
)
