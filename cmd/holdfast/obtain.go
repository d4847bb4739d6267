package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
)

// acquire waits for the lock. A signal gives up the queue position; a second one exits without
// releasing it.
func (j *job) acquire(locks *holdfast.Locker, signals <-chan os.Signal) (*holdfast.LeaseSet, error) {
	whole, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := whole
	if end := j.deadline(); !end.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(whole, end)
		defer stop()
	}
	type result struct {
		leases *holdfast.LeaseSet
		err    error
	}
	done := make(chan result, 1)
	go func() {
		leases, err := j.askOn(ctx, locks)
		if held := (*holdfast.HeldError)(nil); j.try && j.wait == 0 && errors.As(err, &held) && errors.Is(err, context.DeadlineExceeded) { //mutant:cmd-try-watches
			// The store has answered, but must watch the holder until it is sure: it is not silent.
			leases, err = j.ask(whole, locks)
		}
		done <- result{leases, err}
	}()
	for {
		select {
		case r := <-done:
			stderr.ends() // the watch prints nothing after this //mutant:run-wait-told-as-over
			return r.leases, j.refused(r.err)
		case sig := <-signals:
			if !slices.Contains(givesUp, sig) {
				continue
			}
			go func() {
				for sig := range signals {
					if slices.Contains(givesUp, sig) {
						stderr.ends()
						j.tellEnded(codeOfSignal(sig))
						quit(codeOfSignal(sig))
					}
				}
			}()
			cancel() //mutant:cmd-signal-ends-a-watch
			if r := <-done; r.leases != nil {
				r.leases.ReleaseUnused() //mutant:run-unused-at-signal
			}
			j.account.ends(report.Interrupted)
			return nil, &exitError{code: codeOfSignal(sig)}
		}
	}
}

// tryFor is how long a store may be silent if the claim does not wait and there is no -w. It is a
// variable, like the others of its kind, for the tests: for them a stalled machine must not look
// like a silent store.
var tryFor = 2500 * time.Millisecond

// leavesFor is how long giving up a queue position may take.
var leavesFor = 500 * time.Millisecond

// begun is when the program started: -w counts from there, however long it takes to open the
// store.
var begun = time.Now()

// since returns begun once the job has opened its store, else now.
func (j *job) since() time.Time {
	if j.begun.IsZero() {
		return time.Now()
	}
	return j.begun
}

// asksFor returns how long we wait for the lock or, if we do not wait for it, for the store to
// answer; 0: no bound.
func (j *job) asksFor() time.Duration {
	switch {
	case j.wait > 0: //mutant:cmd-try-for-as-long
		return time.Duration(j.wait)
	case j.try:
		return tryFor //mutant:cmd-try-is-bounded
	}
	return 0
}

// deadline returns the instant at which asksFor has passed; zero: no bound.
func (j *job) deadline() time.Time {
	if d := j.asksFor(); d > 0 {
		return j.since().Add(d)
	}
	return time.Time{}
}

// againAfter is the pause before a store that did not answer is asked again, if -w has time left.
const againAfter = 500 * time.Millisecond

// askOn asks, and with -w asks again while the store does not answer and there is time: it may
// come back.
func (j *job) askOn(ctx context.Context, locks *holdfast.Locker) (*holdfast.LeaseSet, error) {
	var before error
	for {
		leases, err := j.ask(ctx, locks)
		away := errors.Is(err, holdfast.ErrUnavailable)
		if before != nil && !away && ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, holdfast.ErrHeld) {
			return nil, before // the last attempt had too little time to find out more
		}
		if !away || !j.waits || ctx.Err() != nil { //mutant:cmd-store-that-comes-back
			return leases, err
		}
		before = err
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(againAfter):
		}
	}
}

// ask takes all names, or with -n tries to.
func (j *job) ask(ctx context.Context, locks *holdfast.Locker) (*holdfast.LeaseSet, error) {
	claims := make([]*holdfast.Lock, len(j.names))
	for i, name := range j.names {
		switch {
		case j.slots.n > 0:
			claims[i] = locks.Semaphore(name, j.slots.n).Slots(j.slots.k)
		case j.shared:
			claims[i] = locks.RWMutex(name).Read()
		default:
			claims[i] = locks.Mutex(name)
		}
	}
	all := locks.All(claims...)
	if j.try {
		return all.TryLock(ctx)
	}
	return all.Lock(ctx)
}

// refused turns a refusal into what the flags make of it, and rewords all other errors.
func (j *job) refused(err error) error {
	held := (*holdfast.HeldError)(nil)
	if !errors.As(err, &held) {
		waited := time.Since(j.since())
		if d := j.asksFor(); d > 0 {
			waited = min(waited, d)
		}
		return exit(say(err, strings.Join(j.names, ", "), j.where, waited))
	}
	outcome := report.Refused
	if j.skipOK {
		outcome = report.Skipped
	}
	j.account.ends(outcome)
	code, prefix, suffix := j.conflict, "", ""
	if j.skipOK { //mutant:run-skip-is-fine
		code, suffix = 0, "; skipped"
	}
	if j.waits && !j.try {
		prefix = fmt.Sprintf("not obtained within %v: ", time.Duration(j.wait))
	}
	if j.json {
		stderr.say(refusal(held, printable(held.Name)+": "+prefix+held.Who())) //mutant:run-refusal-told
	}
	if j.json || j.skipOK && !j.verbose { //mutant:run-skip-not-told
		return &exitError{code: code}
	}
	short := *held
	short.Holders = slices.Clone(held.Holders)
	var notes []*string
	for i := range short.Holders {
		notes = append(notes, &short.Holders[i].Owner.Note)
	}
	message := aboutHolders(printable(held.Name), notes, func() string { return prefix + short.Who() + suffix })
	return &exitError{code, errors.New(message)}
}

// closeWithin closes locks, and waits at most d until a queue position is given up: a store that
// does not answer must not hold up a caller. What is left in the store expires after the TTL.
func closeWithin(d time.Duration, locks *holdfast.Locker) {
	closed := make(chan struct{})
	go func() {
		locks.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(d):
	}
}

// closesFor returns how long to wait for that, by the error of the run. held says whether we had
// the lock.
func closesFor(err error, held bool) time.Duration {
	coded := (*exitError)(nil)
	if errors.Is(err, syscall.ECONNREFUSED) { //mutant:cmd-closed-port-is-left
		return 0 // no server is there to give a position up
	}
	if errors.As(err, &coded) && (coded.code == exitUnavailable || coded.code == exitLost) { //mutant:cmd-silent-store-is-left
		return 100 * time.Millisecond // the store has had its time
	}
	if held {
		return 2 * time.Second
	}
	return leavesFor
}
