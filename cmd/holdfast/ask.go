package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) askCommand() *cobra.Command {
	j := &job{program: p, ttl: duration(30 * time.Second), conflict: exitHeld}
	cmd := &cobra.Command{
		Use:   "ask NAME --reason TEXT [flags]",
		Short: "Ask the holder of a lock to give it up",
		Long: `Ask waits for the lock NAME and asks its holder to give it up, with the reason.
When it gets the lock it gives it back at once, so the next waiter has it. The
holder decides: a program that uses the library gets the request with the reason,
a command under 'holdfast run --give-up SIGNAL' gets the signal, and any other
holder goes on.

A request lasts as long as ask waits. Without -w that is until the holder gives
the lock up, or ask is ended.

To take the lock yourself, use 'holdfast run NAME --ask TEXT'. To take it away from
a holder that does not give it up, see 'holdfast break'.`,
		Example: `  holdfast ask nightly --reason 'web-3 goes down at 18:00' -w 10m`,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.readClaim(cmd, args); err != nil {
				return err
			}
			if err := checkAsk("--reason", j.asks); err != nil {
				return err
			}
			return exit(j.askFor())
		},
	}
	f := cmd.Flags()
	f.StringVar(&j.asks, "reason", "", "why, in a few words (`TEXT`), for the holder")
	f.VarP(&j.wait, "wait", "w", "wait at most `DUR`, then exit 75")
	f.Var(&j.slots, "slots", "K of N slots are wanted; all who use NAME should give the same N")
	p.requires(cmd)
	for _, plain := range []string{"reason", "wait", "slots"} {
		cmd.RegisterFlagCompletionFunc(plain, cobra.NoFileCompletions)
	}
	return cmd
}

// checkAsk returns what is wrong with a reason for the holder; nil if nothing is.
func checkAsk(flag, reason string) error {
	switch {
	case blank(reason):
		return fmt.Errorf("%s is empty: tell the holder why", flag)
	case len(reason) > store.MaxReason:
		return fmt.Errorf("%s has %d bytes, at most %d are kept", flag, len(reason), store.MaxReason)
	}
	return nil
}

// askFor waits for the lock, asks its holder to give it up, and releases it at once.
func (j *job) askFor() error {
	if j.try { // -w 0 sets it
		return mistake("-w 0: a request lasts as long as somebody waits")
	}
	_, s, err := j.open()
	if err != nil {
		return err
	}
	locks, err := holdfast.New(s, &holdfast.Options{TTL: time.Duration(j.ttl), AskToGiveUp: j.asks, Owner: ownerForParent(), Logger: logger(false)})
	if err != nil {
		s.Close()
		return j.cannotAsk(err)
	}
	leases, err := j.acquire(locks, ending(false, nil, nil))
	if err == nil {
		err = say(leases.ReleaseUnused(), strings.Join(j.names, ", "), j.where, 0)
	}
	err = exit(err)
	closeWithin(closesFor(err, leases != nil), locks)
	return err
}

// cannotAsk rewords the error of a store that passes no requests on.
func (j *job) cannotAsk(err error) error {
	if j.asks != "" && errors.Is(err, holdfast.ErrUnsupported) {
		return j.passesNoRequest(err)
	}
	return err
}

func (j *job) passesNoRequest(err error) error {
	return &message{about("", j.where, "it cannot pass a request to the holder of a lock"), err}
}

// requests receives why waiters ask for a lease that we hold: each reason once.
type requests chan string

func newRequests() requests { return make(requests, 16) }

// observe is for Options.Observer.
func (r requests) observe(e holdfast.Event) {
	if e.Kind == holdfast.EventAskedToGiveUp {
		select {
		case r <- e.Reason:
		default: // the buffer is full: there are enough
		}
	}
}

// listen makes the store notify us of requests for the leases, if it can.
func listen(all *holdfast.LeaseSet) {
	for _, name := range all.Names() {
		all.Lease(name).AskedToGiveUp()
	}
}
