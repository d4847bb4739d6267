// Command holdfast-trace sends the span of a finished run by OpenTelemetry. holdfast run --trace
// starts it, with the run's account on stdin. It is a separate program, as its packages would
// slow the start of every run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sendsFor is report.SendsFor; the tests use a longer one.
var sendsFor = report.SendsFor

func run() error {
	var a report.Account
	if err := json.NewDecoder(os.Stdin).Decode(&a); err != nil || a.Span == nil {
		return fmt.Errorf("stdin has no report from holdfast run --trace; only holdfast starts this program: %v", err)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != a.Version {
		return fmt.Errorf("holdfast is of version %s and %s of %s: install both from one package", a.Version, report.TraceProgram, info.Main.Version)
	}
	ctx, cancel := context.WithDeadline(context.Background(), a.Ended.Add(sendsFor))
	defer cancel()
	return inFewWords(send(ctx, &a, os.Getenv))
}

// inFewWords shortens the error of a collector that could not be reached: its address and the
// cause, each once.
func inFewWords(err error) error {
	asked, link, call := (*url.Error)(nil), (*net.OpError)(nil), (*os.SyscallError)(nil)
	if !errors.As(err, &asked) {
		return err
	}
	why := asked.Err
	if errors.As(why, &link) {
		why = link.Err
	}
	if errors.As(why, &call) {
		why = call.Err
	}
	if asked.Timeout() {
		why = errors.New("no answer")
	}
	return fmt.Errorf("%s: %w", asked.URL, why)
}
