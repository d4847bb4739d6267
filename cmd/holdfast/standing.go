package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) holdCommand() *cobra.Command {
	j := &job{program: p, ttl: duration(30 * time.Second), conflict: exitHeld}
	fd := -1
	cmd := &cobra.Command{
		Use:   "hold [flags] NAME...",
		Short: "Hold a lock without a command, until it is asked to end",
		Long: `Hold takes the lock NAME, renews it, and gives it back when it gets TERM, INT or
HUP. Of several NAMEs it takes all or none.

With --fd N a shell script holds the lock for the rest of its run, as with
'flock N'. The script opens the descriptor N for writing, /dev/null is enough,
and calls hold, which returns with 0 when the lock is held. A process in the
background renews it, and gives it back when the script and all that has
inherited the descriptor have ended or closed it. If the lock is lost, the
script and all processes below it get TERM. Linux only.

With --json it prints one JSON object a line on stdout for each event, and it also
gives the lock back when its stdin ends. So a program in any language starts it
with two pipes, waits for the event "held", and works until it closes the pipe or
reads "lost". "asked" says that a waiter asks for the lock.
Each "renewed" says in expires_ms for how long the lock lasts from then on, unless
it is renewed again.

Unlike run, hold cannot end what works under the lock before somebody else gets
it. Use run if the work is one command. Otherwise stop the work at "lost", and check
the token.

A DUR is a duration like 30s, 1m30s, 2d, 1w or 1d12h (weeks and days first), or
a decimal number of seconds (0.5).

Exit codes: 0 given back; 128+N if signal N ended the waiting; 64 wrong usage; 69
the store does not answer; 70 internal error; 75 not obtained, another holds
it; 76 lost; 77 not allowed; 124 held past --at-most-for.`,
		Example: `  # the rest of a script
  exec 9>/dev/null
  holdfast hold nightly --fd 9 -n || exit 0
  backup.sh

  # until Ctrl-C: nobody deploys meanwhile
  holdfast hold deploy --note 'repairing web-3, ask Anna'

  # a program: see docs/operate.md for one in Python
  holdfast hold nightly --json`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() > 0 { // what follows would be names
				return errors.New("hold runs no command; use: holdfast run NAME -- COMMAND")
			}
			if err := j.readClaim(cmd, args); err != nil {
				return err
			}
			switch byFD := cmd.Flags().Changed("fd"); {
			case !byFD:
				return j.told(exit(j.holdHere(cmd, nil)))
			case fd < 3:
				return fmt.Errorf("--fd %d: choose 3 or more, and open it for writing first: exec 9>/dev/null", fd)
			}
			return exit(j.holdForFD(cmd, fd))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&fd, "fd", -1, "return when the lock is held, and keep it until the descriptor `N` of the caller is closed")
	j.claimFlags(cmd, false)
	f.Var(&j.ttl, "ttl", "how long the lock outlives a host that dies; at least 2s; not on a store without deadlines")
	f.Var(&j.atLeast, "at-least-for", "keep the name taken for `DUR` after the grant, even if it is given back sooner")
	f.Var(&j.atMost, "at-most-for", "give the lock back after `DUR`, exit 124")
	p.requires(cmd)
	f.StringVar(&j.note, "note", "", "a remark (`TEXT`) that others see when they are refused")
	f.BoolVar(&j.json, "json", false, "print on stdout what happens, one JSON object a line; end when stdin ends")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "print on stderr what is done")
	for _, plain := range []string{"fd", "ttl", "at-least-for", "at-most-for", "note"} {
		cmd.RegisterFlagCompletionFunc(plain, cobra.NoFileCompletions)
	}
	p.exclude(cmd, "json", "verbose")
	return cmd
}

// A caller holds the lock by a descriptor, as the background process sees it.
type caller interface {
	owner() holdfast.Owner
	gone() <-chan struct{} // closed when nobody has the descriptor any more
	held(line []byte)      // called once, when the lock is held
	stop()                 // ends the caller, as the lock is lost
}

// holdHere holds the lock until it must end; c is nil unless a descriptor decides that.
func (j *job) holdHere(cmd *cobra.Command, c caller) error {
	tried := make(chan struct{}) // closed when the claim is granted or refused
	if !j.try {
		close(tried)
	}
	ends := ending(j.json && c == nil, tried, c)
	if j.json && c == nil {
		stderr.to, stderr.journal = os.Stdout, newJournal(j)
	}
	_, s, err := j.open()
	if err != nil {
		return err
	}
	owner := ownerForParent()
	if c != nil {
		owner = c.owner()
	}
	owner.Note = j.note
	if _, lacks := s.Describe().Lacks[store.PromiseDeadline]; lacks && !cmd.Flags().Changed("ttl") {
		j.ttl = 0
	}
	var now atomic.Pointer[holdfast.LeaseSet] // set once they are held
	o := &holdfast.Options{TTL: time.Duration(j.ttl), MinHold: time.Duration(j.atLeast), Owner: owner, Logger: logger(j.verbose)}
	var asked requests
	if stderr.journal != nil || stderr.screen != nil { // else nobody reads a request
		asked = newRequests()
		o.Observer = func(e holdfast.Event) {
			asked.observe(e)
			if l := now.Load(); stderr.journal != nil && l != nil && e.Kind == holdfast.EventRenewed {
				stderr.say(record{Event: eventRenewed, Expires: leftOf(l)})
			}
		}
	}
	locks, err := holdfast.New(s, o)
	if err != nil {
		s.Close()
		return err
	}
	forget := j.watch(s, owner)
	leases, err := j.acquire(locks, ends)
	if j.try {
		close(tried)
	}
	forget()
	held := err == nil
	if held {
		stderr.holds(leases)
		now.Store(leases)
		err = j.stand(leases, c, ends, asked)
	}
	err = exit(err)
	closeWithin(closesFor(err, held), locks)
	return err
}

func leftOf(l *holdfast.LeaseSet) int64 {
	if d := l.Deadline(); !d.IsZero() {
		return max(1, time.Until(d).Milliseconds())
	}
	return 0
}

// ending delivers what ends the hold: signals, the end of stdin if stdin is set, and that the
// caller's descriptor is closed. With -n the claim is answered before the end of stdin counts:
// the exit code is the answer.
func ending(stdin bool, tried <-chan struct{}, c caller) <-chan os.Signal {
	ends := make(chan os.Signal, 16)
	for _, sig := range givesUp {
		if !signal.Ignored(sig) {
			signal.Notify(ends, sig)
		}
	}
	if stdin {
		signal.Ignore(syscall.SIGPIPE) // if our reader has ended, stdin ends too
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			select {
			case <-tried: //mutant:hold-answers-before-stdin-ends
			case <-time.After(tryFor): // a silent store is waited for with -w
			}
			ends <- givesUp[0] //mutant:hold-ends-with-stdin
		}()
	}
	if c != nil {
		go func() {
			<-c.gone()
			ends <- givesUp[0] //mutant:hold-ends-with-descriptor
		}()
	}
	return ends
}

// stand holds the leases until something ends that, and releases them.
func (j *job) stand(leases *holdfast.LeaseSet, c caller, ends <-chan os.Signal, asked requests) error {
	name := printable(strings.Join(j.names, ", "))
	switch {
	case c != nil:
		line := newJournal(j)
		line.store, line.leases = j.where, held(leases)
		c.held(line.line(record{Event: eventHeld, Expires: leftOf(leases)}))
	case stderr.journal == nil && stderr.screen != nil:
		tell("%s: held; Ctrl-C gives it back", name)
	}
	var over <-chan time.Time
	if j.atMost > 0 {
		over = time.After(time.Duration(j.atMost))
	}
	if asked != nil {
		listen(leases)
	}
	code := 0
	for holds := true; holds; {
		select {
		case why := <-asked:
			tellAsked("%s: a waiter asks for the lock: %s", name, why) //mutant:hold-tells-who-asks
			continue
		case <-ends:
			if c != nil {
				c.stop() // does nothing if it has ended
			}
		case <-over:
			code = exitTimeout
			tell("%s: held past --at-most-for %v; giving it back", name, time.Duration(j.atMost))
		case <-leases.Lost():
			tellLost("%s", whyLost(name, context.Cause(leases.Context(context.Background())), j.forgets))
			if c != nil {
				c.stop()
			}
			_ = leases.Release() // a broken hold is released too
			return &exitError{code: exitLost}
		}
		holds = false
	}
	if c != nil && code != 0 {
		c.stop()
	}
	switch err := leases.Release(); {
	case errors.Is(err, holdfast.ErrLost):
		tellLost("%s", whyLost(name, err, j.forgets))
		return &exitError{code: exitLost}
	case err != nil && code == 0:
		return say(err, name, j.where, 0)
	}
	return &exitError{code: code}
}

// ownerForParent returns this process as an owner. Its program is followed by the one that
// started us.
func ownerForParent() holdfast.Owner {
	owner := holdfast.ThisProcess()
	if above := programOf(os.Getppid()); above != owner.Program {
		owner.Program += " for " + above
	}
	return owner
}

// programOf returns the name of the process's program; "holdfast" if it is not known.
func programOf(pid int) string {
	name, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "comm"))
	if err != nil {
		return "holdfast"
	}
	return strings.TrimSpace(string(name))
}
