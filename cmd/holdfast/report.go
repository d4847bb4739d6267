package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// reportCommand is what the whole program is started with to send an account. It is for ourselves.
const reportCommand = "report"

const (
	sendsFor   = 4 * time.Second // the time for the span, of which the whole program tells what went wrong
	reportsFor = 5 * time.Second // the time for all of it, after which the program is killed
)

// report has the whole program write the metrics and send the span of a run that has ended. The lock is given back
// by then. Whatever happens is told, and nothing else comes of it.
func (j *job) report(code int) {
	a := j.account
	if a == nil {
		return
	}
	a.Code, a.Ended, a.Store = code, time.Now(), j.where
	a.ends(outcomeError)
	text, err := json.Marshal(a)
	if err != nil {
		tell("%s: metrics and trace: %v", j.about(), err)
		return
	}
	lines, err := sendBy(reporter(), text, signals(), reportsFor)
	for _, line := range lines {
		tell("%s: %s", j.about(), strings.TrimPrefix(line, linePrefix))
	}
	if err != nil {
		tell("%s: metrics and trace not sent: %v", j.about(), err)
	}
}

func (j *job) about() string { return printable(strings.Join(j.names, ", ")) }

// sendBy runs the program with the account on its stdin, for a time, and returns what it has said.
func sendBy(program string, account []byte, signals <-chan os.Signal, within time.Duration) (lines []string, err error) {
	var said bytes.Buffer
	cmd := exec.Command(program, reportCommand)
	cmd.Env = setenv(os.Environ(), handedEnv, version())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(account), &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		select {
		case err = <-ended:
			return slices.DeleteFunc(strings.Split(said.String(), "\n"), func(s string) bool { return s == "" }), err
		case sig := <-signals: // somebody insists
			if !slices.Contains(givesUp, sig) {
				continue
			}
			err = fmt.Errorf("%v while they were being sent", sig)
		case <-over.C:
			err = fmt.Errorf("not within %v", within) //mutant:report-bounded
		}
		_ = cmd.Process.Kill() // it is not waited for: what hangs in the kernel does not die
		return nil, err
	}
}
