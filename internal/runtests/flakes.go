package main

import "strings"

// flakes are the tests that are known to fail now and then, each with the
// reason. The report prints the reason beside the failure, which is a failure
// all the same: the list is of work to do, and no permission. It holds the full
// name of the test, as the report prints it, without its subtests.
var flakes = []flake{}

// A flake is a test that chance can fail.
type flake struct{ test, reason string }

// knownToFlake returns the reason on the list for a failure, or "".
func knownToFlake(failure string) string {
	for _, f := range flakes {
		if failure == f.test || strings.HasPrefix(failure, f.test+"/") {
			return f.reason
		}
	}
	return ""
}
