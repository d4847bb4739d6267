package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// closeTime bounds Close as a whole.
	closeTime = 5 * time.Second
	// closeCalls bounds the calls that are under way at Close, and those that give
	// back holds. The rest of closeTime is for late returns and for closing the store.
	closeCalls = 4 * time.Second
	// closeRenewals bounds the renewals that are under way at Close: no hold is
	// given back while it is being renewed.
	closeRenewals = time.Second
	// leastCall is the least time for one call while other batches wait, unless a
	// deadline is nearer.
	leastCall = 500 * time.Millisecond
)

// refuse starts refusing new claims and ends all waits.
func (e *engine) refuse() {
	e.refusing.Do(func() { close(e.closing) })
	e.sched.mu.Lock()
	defer e.sched.mu.Unlock()
	e.checkIdle()
}

// checkIdle wakes shutdown if nothing is held and no Do runs. The scheduler's
// lock is held.
func (e *engine) checkIdle() {
	if e.isClosing() && len(e.sched.holds) == 0 && e.running.Load() == 0 { //mutant:shutdown-waits
		e.drained.Do(func() { close(e.idle) })
	}
}

// does counts a Do whose function begins.
func (e *engine) does() { e.running.Add(1) }

// did counts the end of that function.
func (e *engine) did() {
	if e.running.Add(-1) == 0 && e.isClosing() { //mutant:shutdown-see-last-end
		e.sched.mu.Lock()
		defer e.sched.mu.Unlock()
		e.checkIdle()
	}
}

// shutdown waits until nothing is held and no Do runs, ctx ends, or close is called.
// Then it closes the engine.
func (e *engine) shutdown(ctx context.Context) error {
	e.refuse()
	var late error
	select {
	case <-e.idle:
	case <-e.life.Done():
	default:
		select {
		case <-e.idle:
		case <-e.life.Done(): //mutant:shutdown-waits-beside-close
		case <-ctx.Done(): //mutant:shutdown-waits-beyond-context
			e.sched.mu.Lock()
			n := len(e.sched.holds)
			e.sched.mu.Unlock()
			late = fmt.Errorf("shut down %s: %d leases were still held, and %d calls of Do still ran: %w", e.desc.Store, n, e.running.Load(), ctx.Err())
		}
	}
	return errors.Join(late, e.close())
}

func (e *engine) close() error {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	e.mu.Unlock()
	if again {
		<-e.ended
		return e.err
	}
	e.refuse()
	begun := e.now()
	e.callsEnd.Store(int64(begun.Add(closeCalls)))
	e.bounds.limit(time.Now().Add(closeRenewals), time.Now().Add(closeCalls))
	e.end()
	c := &closer{e: e, end: begun.Add(closeCalls)}
	done := make(chan error, 1)
	go func() { // a driver that ignores its context can block this
		c.run()
		e.work.Wait() //mutant:close-wait
		e.crew.Stop()
		e.sched.stop()
		e.bounds.stop()
		e.notifications.stop()
		err := e.store.Close()
		if err != nil {
			err = fmt.Errorf("close %s: %w", e.desc.Store, indeterminate(err)) //mutant:close-error-of-the-store
		}
		done <- err
	}()
	timer := time.NewTimer(closeTime) //mutant:close-takes-long-calls
	defer timer.Stop()
	select {
	case e.err = <-done:
	case <-timer.C:
		e.err = fmt.Errorf("close %s: %w: calls still run after %v; the store is closed when they have returned", e.desc.Store, store.ErrUnavailable, closeTime)
	}
	if err := c.report(); err != nil {
		e.err = errors.Join(err, e.err)
	}
	close(e.ended)
	return e.err
}

// isClosing reports whether Shutdown or Close has begun. From then on no claim is
// granted.
func (e *engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// isEnding reports whether Close has begun. From then on nothing is renewed.
func (e *engine) isEnding() bool { return e.life.Err() != nil }

// A closer gives back all holds of a closing engine.
type closer struct {
	e   *engine
	end clock.Instant // when the last call must end

	mu    sync.Mutex
	all   int
	todo  []*returning // to try in the next round
	ready []*returning // to send in this round, by deadline
	ended []*returning // not reported yet
	clear int          // how many have nothing left in the store: given back or lost
	why   error        // the newest cause of a failure
}

// A returning is one hold to be given back.
type returning struct {
	h        *hold
	flight   <-chan struct{} // closed when the renewal under way has ended; nil: there is none
	deadline clock.Instant
	err      error // the outcome of the newest try
}

// run gives back all holds, many in one call, until the outcome of each is known or
// the time is up.
func (c *closer) run() {
	s := &c.e.sched
	s.mu.Lock()
	all := append([]*hold(nil), s.holds...) //mutant:close-leaves-lease
	s.mu.Unlock()
	// All leases end now, however long it takes to give the holds back.
	all = slices.DeleteFunc(all, func(h *hold) bool { return !h.finish(released, errClosed) })
	c.mu.Lock()
	for _, h := range all {
		flight, deadline := s.remove(h)
		c.todo = append(c.todo, &returning{h: h, flight: flight, deadline: deadline, err: errNoTime})
	}
	c.all = len(c.todo)
	c.mu.Unlock()
	for pause := 10 * time.Millisecond; len(c.todo) > 0; pause = min(2*pause, 500*time.Millisecond) {
		c.round()
		wait := jitter(pause)
		if c.e.now().Add(wait) >= c.end { //mutant:close-tries-long-release
			break
		}
		if len(c.todo) > 0 {
			time.Sleep(wait)
		}
	}
	c.ended = append(c.ended, c.todo...)
	c.tell()
}

// report returns an error that says how many holds were not given back, or nil.
func (c *closer) report() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.e.beside
	b.mu.Lock()
	defer b.mu.Unlock()
	all, left := c.all+b.all, c.all-c.clear+b.left
	if left == 0 { //mutant:close-tells-failure
		return nil
	}
	why := cmp.Or(c.why, b.why)
	if why == nil {
		why = errNoTime
	}
	return fmt.Errorf("close %s: %w: %d of %d leases were not given back; their names come free when the store lets them expire: %w", c.e.desc.Store, store.ErrUnavailable, left, all, why)
}

// beside counts the holds that a multiAcquire gives back while Close runs. It had
// borrowed them from the scheduler, so Close did not find them.
type beside struct {
	mu        sync.Mutex
	all, left int
	why       error // the newest cause of a failure
}

// gaveBack counts such a hold and the outcome of its release, if Close has begun and
// did not find the hold itself.
func (b *beside) gaveBack(e *engine, err error) {
	if !e.isEnding() || errors.Is(err, store.ErrReleased) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all++
	if err != nil && !errors.Is(err, store.ErrLost) {
		b.left++
		b.why = err
	}
}

var errNoTime = fmt.Errorf("%w: there was no time left to give it back", store.ErrUnavailable)

// round sends each hold once, except those still being renewed. Afterwards, todo has
// the holds for the next round.
func (c *closer) round() {
	c.mu.Lock()
	todo := c.todo
	c.todo, c.ready = nil, nil
	for _, r := range todo {
		select {
		case <-r.flight:
			r.flight = nil
		default:
		}
		switch {
		case r.flight != nil: // two operations on one hold never overlap
			c.todo = append(c.todo, r)
		case r.h.reported != nil: // lost: nothing to give back
			c.over(r, r.h.reported)
		default:
			c.ready = append(c.ready, r)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(c.ready, func(a, b *returning) int { return cmp.Compare(a.deadline, b.deadline) })
	var calls sync.WaitGroup
	for range batches {
		calls.Go(func() {
			for {
				batch, bound := c.next()
				if len(batch) == 0 {
					return
				}
				c.send(batch, bound)
			}
		})
	}
	calls.Wait()
	c.tell()
}

// next takes the next batch, and returns how long its call may take. The call ends
// before the deadline of each hold in the batch, as the name may have another owner
// after that, and soon enough to leave time for the other batches.
func (c *closer) next() (batch []*returning, bound time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.e.now()
	for len(c.ready) > 0 && c.ready[0].deadline <= now { //mutant:close-sends-after-deadline
		c.ended, c.ready = append(c.ended, c.ready[0]), c.ready[1:]
	}
	if now >= c.end {
		c.todo, c.ready = append(c.todo, c.ready...), nil
	}
	if len(c.ready) == 0 {
		return nil, 0
	}
	waves := (len(c.ready)-1)/(batches*batchSize) + 1
	share := min(max(c.end.Sub(now)/time.Duration(waves), leastCall), c.end.Sub(now)) //mutant:close-call-hangs-takes
	left := c.ready[0].deadline.Sub(now)
	bound = min(left, share) //mutant:close-deadline-bounds-call
	n := 1
	for n < min(len(c.ready), batchSize) { //mutant:close-sends-release-time
		if left < share && c.ready[n].deadline.Sub(now) > 2*left { //mutant:close-deadline-bounds-all
			break // a hold that expires soon shortens the call only for similar ones
		}
		n++
	}
	batch, c.ready = c.ready[:n:n], c.ready[n:]
	return batch, bound
}

// send gives back a batch in one call and reads the answers.
func (c *closer) send(batch []*returning, bound time.Duration) {
	holds, of := make([]store.Hold, len(batch)), make([]*hold, len(batch))
	for i, r := range batch {
		holds[i], of[i] = r.h.back(), r.h
	}
	var out []error
	c.e.bounded(nil, bound, func(ctx context.Context) { out = c.e.store.ReleaseAll(c.e.sched.serving(ctx, of), holds) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range batch {
		switch err := out[i]; {
		case err == nil || errors.Is(err, store.ErrLost):
			if r.h.ownRelease(err, r.deadline) {
				err = nil
			}
			c.over(r, indeterminate(err)) //mutant:context-loss-close
		default:
			r.err, c.why = indeterminate(err), indeterminate(err)
			if store.Definite(err) {
				c.ended = append(c.ended, r)
			} else {
				c.todo = append(c.todo, r)
			}
		}
	}
}

// over notes that a hold has nothing left in the store.
func (c *closer) over(r *returning, err error) {
	r.err = err
	c.clear++
	c.ended = append(c.ended, r)
}

// tell reports the holds that have ended. No lock is held, as an observer may be slow.
func (c *closer) tell() {
	for _, r := range c.ended {
		r.h.ended(r.err)
	}
	c.ended = nil
}
