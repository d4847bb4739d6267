//go:build holdfast_patient

package main

import (
	"os"
	"time"
)

// The tests build the program with this tag. The test of a collector that does not answer keeps
// the short bound.
func init() {
	if os.Getenv("HOLDFAST_TEST_IMPATIENT") == "" {
		sendsFor = 3 * time.Minute
	}
}
