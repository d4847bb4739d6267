package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// reduced is reduce after the lease stopped needing the upgrade.
func (c *changer) reduced(l *Lease) error {
	if err := c.reduce(); err != nil {
		return l.errorf(fmt.Errorf("downgrade: %w", err))
	}
	return nil
}

// reduce changes the hold back if none of its leases needs the upgrade any more.
func (c *changer) reduce() error {
	h := c.h
	h.mu.Lock()
	full := c.full
	h.mu.Unlock()
	if !full {
		return nil
	}
	bound := time.NewTimer(h.s.releaseFor())
	defer bound.Stop()
	late := fmt.Errorf("%w: no answer yet; it is asked for again until there is one", store.ErrUnavailable)
	select { // blocks only while another change of the hold is under way
	case c.one <- struct{}{}:
	case <-bound.C:
		return late
	}
	if !c.unneeded() {
		<-c.one
		return nil
	}
	done := make(chan error, 1)
	h.e.work.Go(func() {
		err := c.back()
		<-c.one // before the caller has its answer
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-bound.C:
		return late
	}
}

// unneeded marks the hold as not upgraded if none of its leases needs the upgrade.
// It reports whether there is a change to send.
func (c *changer) unneeded() bool {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for l := c.h.leases; l != nil; l = l.next {
		if l.weight.Load() == store.Full { //mutant:downgrade-counts-answered-too
			return false
		}
	}
	was := c.full
	c.full = false
	return was
}

// back changes the hold back. It retries until the store has done so, the hold has
// ended, or Close begins. Canceling an upgrade and downgrading are the same change.
func (c *changer) back() error {
	c.next()
	for {
		_, _, err := c.send(nil, store.Upgradeable, "", longestCall, c.h.e.life.Done(), new(trouble))
		if err == nil || errors.Is(err, store.ErrLost) || c.h.e.isEnding() { //mutant:way-back-tried-while
			return err
		}
		c.h.e.sleep(jitter(500 * time.Millisecond)) // even after a definite refusal, as with a renewal //mutant:shutdown-downgrade-tried-without
	}
}

// Downgrade turns an upgraded lease back into an upgradeable read lease.
func (l *Lease) Downgrade() error {
	h := l.hold
	if !h.e.enter() {
		return l.errorf(store.ErrClosed)
	}
	defer h.e.work.Done()
	h.checkClock()
	h.mu.Lock()
	why, was := l.why, l.weight.Load()
	if why == nil && was == store.Full {
		l.weight.Store(store.Upgradeable) //mutant:downgrade-counts-answered
	}
	h.mu.Unlock()
	switch {
	case why != nil:
		return l.errorf(why)
	case was != store.Full:
		return l.errorf(fmt.Errorf("downgrade: %w: it is not upgraded", store.ErrInvalid))
	}
	return h.changer.reduced(l)
}
