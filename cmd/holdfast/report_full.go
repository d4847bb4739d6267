//go:build !holdfast_lean

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// reporter is the program that sends accounts; "": there is none.
func reporter() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}

// addReportCommand adds what a run that has ended starts, with an account on stdin.
func addReportCommand(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use:    reportCommand,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return exit(sendAccount(os.Stdin, os.Stdout)) },
	})
}

// sendAccount writes the metrics and sends the span of the account that it reads, and says what went wrong: a line for each.
func sendAccount(in io.Reader, out io.Writer) error {
	var a account
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return err
	}
	if a.Metrics != "" {
		if err := a.writeMetrics(); err != nil {
			fmt.Fprintf(out, "metrics not written: %s\n", plainText(err.Error()))
		}
	}
	if a.Span != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sendsFor)
		defer cancel()
		if err := a.sendSpan(ctx, os.Getenv); err != nil {
			fmt.Fprintf(out, "span not sent: %s\n", plainText(err.Error()))
		}
	}
	return nil
}
