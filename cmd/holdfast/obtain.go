package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// acquire waits for the lock. A signal gives up the place; a second one leaves
// without giving it back.
func (j *job) acquire(locks *holdfast.Locker, signals <-chan os.Signal) (*holdfast.LeaseSet, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if j.waits && !j.try {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(j.wait))
		defer cancel()
	}
	type result struct {
		leases *holdfast.LeaseSet
		err    error
	}
	done := make(chan result, 1)
	go func() {
		leases, err := j.ask(ctx, locks)
		done <- result{leases, err}
	}()
	for {
		select {
		case r := <-done:
			stderr.ends() // the watch tells nothing behind this //mutant:run-wait-told-as-over
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
			cancel()
			if r := <-done; r.leases != nil {
				r.leases.ReleaseUnused() //mutant:run-unused-at-signal
			}
			return nil, &exitError{code: codeOfSignal(sig)}
		}
	}
}

// ask takes all names, or tries to.
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

// refused makes a refusal what the flags say that it is.
func (j *job) refused(err error) error {
	held := (*holdfast.HeldError)(nil)
	if !errors.As(err, &held) {
		return exit(err)
	}
	message := fmt.Sprintf("%s: %s", held.Name, held.Who())
	if j.waits && !j.try {
		message = fmt.Sprintf("%s: not obtained within %v: %s", held.Name, time.Duration(j.wait), held.Who())
	}
	if j.json {
		stderr.say(refusal(held, message)) //mutant:run-refusal-told
	}
	switch {
	case j.skipOK: //mutant:run-skip-is-fine
		return &exitError{code: 0} //mutant:run-skip-not-told
	case j.json:
		return &exitError{code: j.conflict}
	}
	return &exitError{j.conflict, errors.New(message)}
}

// closeWithin waits until a position that was given up is given back, but not for
// long: a store that does not answer must not hold up who has given up. What is
// left in it is gone after the TTL.
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
