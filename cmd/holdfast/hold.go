package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A diedOf is the end of a command by a Ctrl-C at its terminal.
type diedOf struct {
	event
	*exitError
}

func (d *diedOf) Unwrap() error { return d.exitError }

// hold runs the command under the lease and gives it back.
func (j *job) hold(lease *holdfast.Lease, chosen choice, signals <-chan os.Signal) error {
	s := &supervisor{
		lease: lease, signals: signals, stops: catchStops(),
		ttl: time.Duration(j.ttl), grace: time.Duration(j.grace), atMost: time.Duration(j.atMost), killOnLost: j.onLost == "kill",
	}
	if !lease.Valid() { // we were stopped meanwhile
		return exit(lease.Release())
	}
	env := chosen.environment(os.Environ())
	env = setenv(env, "HOLDFAST_NAME", lease.Name())
	env = setenv(env, "HOLDFAST_TOKEN", strconv.FormatInt(lease.Token(), 10))
	env = setenv(env, "HOLDFAST_ID", lease.ID())
	env = setenv(env, "HOLDFAST_TTL_MS", strconv.FormatInt(s.ttl.Milliseconds(), 10))
	var err error
	if s.group, err = start(j.path, j.argv, env); err != nil {
		lease.Release()
		return &exitError{cannotRun(err), fmt.Errorf("%s: %w", j.argv[0], err)}
	}
	s.supervise()
	code := s.result()
	ended := &exitError{code: code}
	if s.group.interrupted(*s.ended) && code == s.ended.code() {
		return &diedOf{*s.ended, ended}
	}
	return ended
}

// setenv sets a variable, which must be in env once: of two most programs see
// the first, some the last.
func setenv(env []string, key, value string) []string {
	env = slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, key+"=") })
	return append(env, key+"="+value)
}
