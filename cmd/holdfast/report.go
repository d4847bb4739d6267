package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

// traceAt is where a distribution package installs the program that sends spans. The linker sets
// it.
var traceAt string

// tracePath returns the path of the program that sends spans; "" if there is none.
func tracePath() string {
	name := report.TraceProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	places := []string{traceAt}
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), name))
	}
	for _, at := range places {
		if info, err := os.Stat(at); at != "" && err == nil && info.Mode().IsRegular() {
			return at
		}
	}
	at, _ := exec.LookPath(name)
	return at
}

const metricsCommand = "write-metrics"

// metricsWriter returns the command that a finished run starts, with its account on stdin, to
// write the metrics: a directory that hangs must not hold the run up.
func metricsWriter() *cobra.Command {
	return &cobra.Command{
		Use:    metricsCommand,
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			var a account
			err := json.NewDecoder(os.Stdin).Decode(&a)
			if err == nil {
				err = a.writeMetrics()
			}
			return exit(err)
		},
	}
}

// waitsForReports is report.WaitsFor; the tests use a longer one.
var waitsForReports = report.WaitsFor

// report writes the metrics and sends the span of a finished run. The lock is released by then.
// An error is only printed.
func (j *job) report(code int) {
	a := j.account
	if a == nil {
		return
	}
	a.Code, a.Ended, a.Store = code, time.Now(), j.where
	a.ends(report.Error)
	ctx, cancel := context.WithDeadline(context.Background(), a.Ended.Add(waitsForReports))
	defer cancel()
	name := printable(strings.Join(j.names, ", "))
	if self, err := os.Executable(); a.Metrics != "" {
		if err == nil {
			err = sendBy(ctx, a, signals(), self, metricsCommand)
		}
		if err != nil {
			tell("%s: metrics not written: %v", name, err)
		}
	}
	if a.Span != nil {
		if err := sendBy(ctx, a, signals(), tracePath()); err != nil {
			tell("%s: span not sent: %v", name, err)
		}
	}
}

// sendBy runs a program with the account on its stdin, until the context ends or a signal stops
// it. The error is what the program prints.
func sendBy(ctx context.Context, a *account, signals <-chan os.Signal, program string, args ...string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if text := strings.TrimPrefix(plainText(said.String()), linePrefix); err != nil && text != "" {
				return fmt.Errorf("%s", text)
			}
			return err
		case sig := <-signals:
			if !slices.Contains(givesUp, sig) {
				continue
			}
			err = fmt.Errorf("%v came meanwhile", sig)
		case <-ctx.Done():
			err = fmt.Errorf("not within %v", waitsForReports) //mutant:report-bounded
		}
		_ = cmd.Process.Kill() // do not wait for it: what hangs in the kernel does not die
		return err
	}
}
