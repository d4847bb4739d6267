//go:build holdfast_patient

package main

import (
	"os"
	"time"
)

// The tests build the program with this tag. One of them is of a collector that does not answer.
func init() {
	if os.Getenv("HOLDFAST_TEST_IMPATIENT") == "" {
		sendsFor = 3 * time.Minute
	}
}
