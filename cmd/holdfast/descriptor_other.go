//go:build !linux

package main

import "github.com/spf13/cobra"

// holdForFD fails: it needs locks of open file descriptions, and /proc.
func (j *job) holdForFD(*cobra.Command, int) error {
	return mistake("--fd is for Linux alone; here use hold --json, or run")
}
