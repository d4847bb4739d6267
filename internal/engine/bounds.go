package engine

import (
	"context"
	"sync"
	"time"
)

// bounds ends the operations on the store that take too long, with one timer for
// all of them. A context with its own timer would cost more than all the engine's
// other work for an operation: when a new timer is the earliest, the runtime wakes
// a thread that sleeps until a later one.
type bounds struct {
	mu    sync.Mutex
	open  []*bound
	timer *time.Timer
	armed time.Time // when the timer fires; zero: not set
	last  time.Time // when all must end; zero: no limit
	early time.Time // when operations with less set must end
}

// A bound is the context of one operation.
type bound struct {
	b     *bounds
	of    *values // those of the claim that it serves
	index int     // in b.open

	// Guarded by b.mu.
	at   time.Time
	less bool          // useless once the engine closes: see limit
	done chan struct{} // made by the first Done
	err  error
}

// begin returns the context of an operation that begins now. The caller must call
// end after the operation.
func (b *bounds) begin(of *values, d time.Duration, less bool) *bound {
	c := &bound{b: b, of: of, at: time.Now().Add(d), less: less}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut(c)
	c.index = len(b.open)
	b.open = append(b.open, c)
	b.arm(c.at)
	return c
}

// end ends the context after the operation.
func (c *bound) end() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	open := c.b.open
	last := len(open) - 1
	open[c.index] = open[last]
	open[c.index].index = c.index
	open[last] = nil
	c.b.open = open[:last]
	c.finish(context.Canceled)
}

// arm makes the timer fire by the time at. b.mu is held.
func (b *bounds) arm(at time.Time) {
	if !b.armed.IsZero() && !at.Before(b.armed) {
		return
	}
	b.armed = at
	if b.timer == nil {
		b.timer = time.AfterFunc(time.Until(at), b.expire)
		return
	}
	b.timer.Reset(time.Until(at))
}

// expire ends the operations that have taken too long. The operation that the timer
// was set for may have ended long ago: the end of an operation does not reset the timer.
func (b *bounds) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = time.Time{}
	now := time.Now()
	for _, c := range b.open {
		if !c.at.After(now) {
			c.finish(context.DeadlineExceeded)
		} else {
			b.arm(c.at)
		}
	}
}

// limit makes all operations, including those under way, end by the time at; those
// with less set, by the time early.
func (b *bounds) limit(early, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.early, b.last = early, at
	for _, c := range b.open {
		b.cut(c)
		b.arm(c.at)
	}
}

// cut applies the limit, if there is one. b.mu is held.
func (b *bounds) cut(c *bound) {
	last := b.last
	if c.less {
		last = b.early
	}
	if !last.IsZero() && c.at.After(last) {
		c.at = last
	}
}

func (b *bounds) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}

// finish ends the context. b.mu is held.
func (c *bound) finish(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

func (c *bound) Deadline() (time.Time, bool) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.at, true
}

func (c *bound) Done() <-chan struct{} {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *bound) Err() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.err
}

func (c *bound) Value(key any) any { return c.of.Value(key) } //mutant:values-of-claim
