package main

import "strings"

// flakes are the tests that are known to fail now and then, each with the reason. The report
// prints the reason next to the failure, which still counts as a failure: the list is work to
// do, not a permission. Each entry has the full name of the test, as the report prints it,
// without subtests.
var flakes = []flake{}

// A flake is a test that can fail by chance.
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
