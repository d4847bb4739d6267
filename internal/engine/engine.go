// Package engine is the part of holdfast that runs in each process: it queues
// claims locally by name, asks the store, and renews holds, hands them over and
// gives them back. Package holdfast is its API and documents its promises;
// docs/decisions/0044-engine.md describes the interface between the two.
//
// Lock or Try claims a Target. A request asks the store for it; its pace schedules
// the asks. The store grants a hold, which the scheduler renews. Callers get leases
// of the hold.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/crew"
	"github.com/holdfast-go/holdfast/store"
)

// An engine is what all lockers of one store share.
type engine struct {
	store   store.Store
	desc    store.Description
	process store.Process
	now     func() clock.Instant
	born    clock.Instant
	endless bool // the holds have no deadline
	refused func(Refusal) HeldError

	queues        localQueues
	notifications notifications
	polls         polls
	sched         scheduler
	bounds        bounds
	leading       leading
	crew          crew.Crew

	first  sync.Once      // runs begin's work at the first claim
	met    chan struct{}  // closed when the first operation on the store has ended
	meets  sync.Once      // closes met
	work   sync.WaitGroup // every goroutine of the engine, and every call
	mu     sync.Mutex     // guards closed against work.Add
	closed bool
	life   context.Context // ends when close begins
	end    context.CancelFunc
	ended  chan struct{} // closed when close has ended
	err    error         // what close returned

	refusing sync.Once     // closes closing
	closing  chan struct{} // closed when shutdown or close begins: no new claims
	drained  sync.Once     // closes idle
	idle     chan struct{} // closed when nothing is held and no Do runs, after closing
	running  atomic.Int64  // how many calls of Do run their function
	beside   beside        // holds that Close does not find
	callsEnd atomic.Int64  // an Instant: when the last call must end; 0: close has not begun
}

func newEngine(s store.Store, refused func(Refusal) HeldError) (*engine, error) {
	e := &engine{
		store: s, desc: s.Describe(), process: store.NewProcess(), refused: refused,
		now: clock.Now, ended: make(chan struct{}), met: make(chan struct{}), closing: make(chan struct{}), idle: make(chan struct{}), //mutant:time-suspended-count
	}
	tells, ok := s.(store.LossTeller)
	if e.endless = endless(&e.desc); e.endless && !ok {
		return nil, fmt.Errorf("%w: %s has no deadlines, and is no store.LossTeller: how is a loss to be known?", store.ErrInvalid, e.desc.Store)
	}
	e.life, e.end = context.WithCancel(context.Background())
	if e.desc.InProcess {
		e.now = clock.Awake
	}
	e.born = e.now()
	e.queues.init(e)
	e.notifications.init(e)
	e.polls = make(polls, mostPolls)
	e.sched.init(e)
	if e.endless {
		tells.TellLosses(e.sched.reportLoss)
	}
	return e, nil
}

// enter makes close wait until work.Done is called. It returns false if close has
// begun: then nothing new may begin. A caller that has entered may start goroutines
// with work.Go.
func (e *engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.work.Add(1)
	}
	return !e.closed
}

// claims is enter for a new claim: it returns false after Shutdown too.
func (e *engine) claims() bool { return !e.isClosing() && e.enter() } //mutant:shutdown-takes-claims

// begin starts the check of the server, at the first claim only. When the first
// operation on the server has ended, it checks the server and logs problems for the
// operator.
func (e *engine) begin(s *settings) {
	e.first.Do(func() { //mutant:server-looked-each-claim
		c, ok := e.store.(store.Checker)
		if !ok || e.desc.InProcess { // there is no server
			return
		}
		e.work.Go(func() {
			if !e.waitMet() { //mutant:check-beside-first-ask
				return
			}
			ctx, cancel := context.WithTimeout(e.life, longestCall)
			defer cancel()
			for _, f := range c.Check(ctx) {
				if f.Level() != store.LevelOK && !e.isClosing() { //mutant:well-logged
					s.Logger.Warn("holdfast: "+f.About+": "+f.Text(), "store", e.desc.Store, seeDoctor)
				}
			}
		})
	})
}

// waitMet waits until the first operation on the store has ended. It returns false if the engine closes first. An earlier
// check would need one more connection, perhaps while many first claims open theirs.
func (e *engine) waitMet() bool {
	select {
	case <-e.met:
		return true
	case <-e.life.Done():
		return false
	}
}

// seeDoctor is logged with problems of the store, as opposed to those of one claim:
// `holdfast doctor` reports them too.
var seeDoctor = slog.String("see", "holdfast doctor")

// together returns at, rounded up to a multiple of grain since the engine began.
// Requests with the same grain are then sent at the same instants, in one batch.
func (e *engine) together(at clock.Instant, grain time.Duration) clock.Instant {
	past := at.Sub(e.born) % grain
	if past < time.Microsecond { // a multiple already, except for rounding
		return at
	}
	return at.Add(grain - past) //mutant:each-keeps-place-itself
}

// longestCall bounds every single operation on the store.
const longestCall = 5 * time.Second

// bounded runs an operation on the store, with a context that ends after d at the
// latest. The context is never a caller's, so that no operation is cut off halfway.
// If the operation serves one claim, of has the values of the claim's context.
func (e *engine) bounded(of *values, d time.Duration, op func(context.Context)) {
	e.within(of, d, false, op)
}

// within is bounded with one more argument: less marks an operation that is useless
// once the engine closes, such as a renewal.
func (e *engine) within(of *values, d time.Duration, less bool, op func(context.Context)) {
	if e.desc.InProcess {
		op(context.Background())
		return
	}
	c := e.bounds.begin(of, d, less)
	defer c.end()
	op(c)
}

// pause waits for d, unless ctx ends or the engine is closed.
func (e *engine) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return store.ErrClosed
	}
}

// sleep waits for d, unless Close begins.
func (e *engine) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.life.Done():
	}
}

// repeat calls f until its outcome is known, d has passed, or stop is closed.
func (e *engine) repeat(of *values, d time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	return e.repeatWhile(of, nil, d, stop, f)
}

// repeatWhile is repeat that also ends when worthIt, given a failure and the pause
// after it, returns false. A nil worthIt always returns true. After indeterminate
// failures, the error is the newest one that is not just the end of the engine's
// own context, if there was one.
func (e *engine) repeatWhile(of *values, worthIt func(error, time.Duration) bool, d time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	var newest error
	var end clock.Instant
	if !e.desc.InProcess { // in process, reading the clock would cost more than the call
		end = e.now().Add(d)
	}
	for left, pause := d, 10*time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var err error
		e.bounded(of, left, func(ctx context.Context) { err = f(ctx) })
		e.meets.Do(func() { close(e.met) })
		if err == nil {
			return nil
		}
		if store.Definite(err) {
			return indeterminate(err)
		}
		newest = newer(newest, err)
		if end == 0 {
			end = e.now().Add(d)
		}
		wait := jitter(pause)
		if last := clock.Instant(e.callsEnd.Load()); last != 0 {
			end = min(end, last)
		}
		if left = end.Sub(e.now()) - wait; left <= 0 || worthIt != nil && !worthIt(err, wait) {
			return indeterminate(newest)
		}
		select {
		case <-time.After(wait):
		case <-stop:
			return indeterminate(newest)
		}
	}
}
