// Package engine is what holdfast does in a process: it has claims wait in a
// local queue for each name, asks the store, renews what is held, hands it over,
// and gives it back. Package holdfast is its API, and says what is promised;
// docs/decisions/0044-engine.md says what crosses between the two.
//
// A Target is claimed, by Lock or Try. A request asks for it, and waits by its
// pace. What is granted is a hold, which the scheduler renews; its leases are
// what callers have of it.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
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

	first  sync.Once      // starts what is done once, at the first claim
	met    chan struct{}  // closed when the first operation on the store has ended
	meets  sync.Once      // closes it
	work   sync.WaitGroup // every goroutine of the engine, and every call
	mu     sync.Mutex     // guards closed against work.Add
	closed bool
	life   context.Context // ends when close begins
	end    context.CancelFunc
	ended  chan struct{} // closed by close when it has ended
	err    error         // what close returned

	refusing sync.Once     // closes closing
	closing  chan struct{} // closed when shutdown or close begins: no new claims
	drained  sync.Once     // closes idle
	idle     chan struct{} // closed when nothing is held and no Do runs, once closing is
	running  atomic.Int64  // how many calls of Do run their function
	beside   beside        // what Close finds nothing of
	callsEnd atomic.Int64  // an Instant: when the last call has to end; 0: not closing
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

// enter keeps close waiting until work.Done is called, and reports whether it
// did: after close nothing new begins. A caller that has entered may start
// goroutines with work.Go.
func (e *engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.work.Add(1)
	}
	return !e.closed
}

// claims is enter for a new claim, of which there are none after Shutdown
// either.
func (e *engine) claims() bool { return !e.isClosing() && e.enter() } //mutant:shutdown-takes-claims

// begin does what the engine does once, at the first claim: it asks the server
// what an operator should hear, when the first operation on it has ended.
func (e *engine) begin(s *settings) {
	e.first.Do(func() { //mutant:server-looked-each-claim
		c, ok := e.store.(store.Checker)
		if !ok || e.desc.InProcess { // which has no server
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

// waitMet waits until the first operation on the store has ended, and reports whether one has before the engine closes. Before,
// a check would need a connection more, and many may have come at once.
func (e *engine) waitMet() bool {
	select {
	case <-e.met:
		return true
	case <-e.life.Done():
		return false
	}
}

// seeDoctor is in the log with what the command's doctor tells as well: it is about the
// store, and not about one claim.
var seeDoctor = slog.String("see", "holdfast doctor")

// together is at, or up to a grain later: at an instant at which others do what
// they have to do as often, so that what they send goes in one batch.
func (e *engine) together(at clock.Instant, grain time.Duration) clock.Instant {
	past := at.Sub(e.born) % grain
	if past < time.Microsecond { // it is there already, but for what division leaves
		return at
	}
	return at.Add(grain - past) //mutant:each-keeps-place-itself
}

// longestCall bounds every single operation on the store.
const longestCall = 5 * time.Second

// bounded runs an operation on the store, on a context that ends after d at the
// latest. It is never a caller's, so that no operation is cut off half-way; of has
// the values for an operation that serves one claim.
func (e *engine) bounded(of *values, d time.Duration, op func(context.Context)) {
	e.within(of, d, false, op)
}

// within is bounded. less says that the operation is of no use once the engine
// closes, as a renewal is.
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

// repeat calls f until its outcome is clear, for at most d in all, or until
// stop.
func (e *engine) repeat(of *values, d time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	return e.repeatWhile(of, nil, d, stop, f)
}

// repeatWhile is repeat while worthIt says of a failure, and of the pause after
// it, that to go on is worth it; nil says so always. Its error is the newest
// that is not the end of our own context, if there was one.
func (e *engine) repeatWhile(of *values, worthIt func(error, time.Duration) bool, d time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	var newest error
	var end clock.Instant
	if !e.desc.InProcess { // there a call takes no time, and reading the clock is most of it
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
