// Package holdfast lets one holder at a time (or N, or many readers) work on a
// named thing, across goroutines, processes and machines, on the store that
// you already run.
package holdfast
