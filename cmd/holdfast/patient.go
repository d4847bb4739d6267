//go:build holdfast_patient

package main

import "time"

// The tests build the command with this tag.
func init() {
	const long = 3 * time.Minute
	tryFor, leavesFor, lookTime = long, long, long
}
