//go:build holdfast_lean

package main

import "github.com/spf13/cobra"

// whole is the whole program, if the package has one: its linker sets it.
var whole string

// reporter is the program that sends accounts; "": there is none.
func reporter() string { return whole }

func addReportCommand(*cobra.Command) {}
