package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// hold runs the command under the lease and gives it back.
func (j *job) hold(lease *holdfast.Lease, in store.Store, chosen choice, signals <-chan os.Signal) error {
	s := &supervisor{
		lease: lease, signals: signals, start: clock.Now(), deadline: until(lease),
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
	s.look() // the front is armed before there is something to kill
	announce(in, lease)
	var err error
	if s.group, err = start(j.path, j.argv, env); err != nil {
		disarmFront()
		lease.Release()
		return &exitError{cannotRun(err), fmt.Errorf("%s: %w", j.argv[0], err)}
	}
	s.supervise()
	return &exitError{code: s.result()}
}

// setenv sets a variable, which must be in env once: of two most programs see
// the first, some the last.
func setenv(env []string, key, value string) []string {
	env = slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, key+"=") })
	return append(env, key+"="+value)
}
