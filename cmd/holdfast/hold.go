package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// at records what messages say about the store, and whether it keeps reasons.
func (j *job) at(s store.Store) {
	d := s.Describe()
	j.where = d.Store
	_, j.forgets = d.Lacks[store.PromiseReason]
	if stderr.journal != nil {
		stderr.journal.store = j.where
	}
}

// open opens the store that the job is about.
func (j *job) open() (chosen choice, s store.Store, err error) {
	if chosen, err = j.choose(); err != nil {
		return chosen, nil, err
	}
	j.begun = begun
	s, err = chosen.openWithin(j.asksFor(), begun)
	if errors.Is(err, holdfast.ErrUnavailable) {
		err = &message{about(printable(strings.Join(j.names, ", ")), "", err.Error()), err}
	}
	if err != nil {
		return chosen, nil, err
	}
	j.at(s)
	return chosen, s, nil
}

// hold runs the command under the leases and releases them.
func (j *job) hold(leases *holdfast.LeaseSet, in store.Store, chosen choice, signals <-chan os.Signal, asked requests) error {
	s := &supervisor{
		leases: leases, signals: signals, where: j.where, forgets: j.forgets, ends: j.ends.Signal, preserve: j.preserve, start: clock.Now(), deadline: until(leases),
		ttl: time.Duration(j.ttl), grace: time.Duration(j.grace), atMost: time.Duration(j.atMost), killOnLost: j.onLost == "kill" || /*mutant:run-loss-without-ttl-kills*/ j.ttl == 0,
	}
	if !leases.Valid() { // this process was stopped meanwhile
		return exit(say(leases.Release(), strings.Join(j.names, ", "), j.where, 0))
	}
	env := chosen.environment(os.Environ())
	env = setenv(environment(env, held(leases)), "HOLDFAST_TTL_MS", strconv.FormatInt(s.ttl.Milliseconds(), 10))
	env = j.account.environment(env)
	if j.giveUp.Signal != nil {
		s.giveUp, s.requests = j.giveUp.Signal, asked
		listen(leases)
	}
	s.look() // arms the front before there is something to kill
	announce(in, leases)
	var err error
	if s.group, err = start(j.path, j.argv, env, j.foreground); err != nil {
		disarmFront()
		leases.ReleaseUnused() //mutant:run-unused-not-started
		j.account.ends(report.NotRun)
		return &exitError{cannotRun(err), fmt.Errorf("%s: %w", j.argv[0], err)}
	}
	s.supervise()
	code := s.result()
	j.account.ends(s.outcomeOf(code))
	return &exitError{code: code}
}

// A lease is one lease of the command, as its environment shows it.
type lease struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Token int64  `json:"token,omitempty"` // 0: the store gives none
}

func held(all *holdfast.LeaseSet) (leases []lease) {
	for _, name := range all.Names() {
		l := all.Lease(name)
		leases = append(leases, lease{name, l.ID(), l.Token()})
	}
	return leases
}

// environment returns env with the leases of the command, and without those of an outer holdfast.
func environment(env []string, leases []lease) []string {
	for _, key := range []string{"HOLDFAST_NAME", "HOLDFAST_TOKEN", "HOLDFAST_ID", "HOLDFAST_LEASES"} {
		env = unset(env, key)
	}
	if len(leases) > 1 {
		return append(env, "HOLDFAST_LEASES="+strings.TrimSpace(string(jsonLine(leases))))
	}
	l := leases[0]
	if l.Token != 0 { //mutant:run-token-told
		env = append(env, "HOLDFAST_TOKEN="+strconv.FormatInt(l.Token, 10))
	}
	return append(env, "HOLDFAST_NAME="+l.Name, "HOLDFAST_ID="+l.ID)
}

// setenv sets a variable, so that env has it once: of two, most programs see the first and some
// the last.
func setenv(env []string, key, value string) []string { return append(unset(env, key), key+"="+value) }

func unset(env []string, key string) []string {
	return slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, key+"=") })
}
