package redlock

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A claim is what a Store remembers of a claim that it asked for: its order, which is the
// same on all nodes, and the newest number used. The engine never runs two operations of
// one claim at a time, so only what notifications read is guarded, by claims.mu.
type claim struct {
	store.Claim
	order  int64         // when it began, in µs; ties are broken by id
	begun  store.Instant // the same on the monotonic clock
	p      int64         // the newest number it asked with; the token once granted
	newest int64         // the largest token that a node returned
	sent   atomic.Uint32 // a bit for each node that an ask was sent to
	full   atomic.Uint32 // a bit for each node that refused the newest ask because its memory is full
	place  store.Instant // when its position ends

	released atomic.Bool // its release is being sent: no node gets a vote any more

	held     bool // it was granted, with the token p
	since    store.Instant
	deadline store.Instant // of the hold

	notified      int64  // the number whose notification was passed on
	notifying     int64  // the number that notifications have come for
	notifications uint32 // a bit for each node that sent one for it
	askedBy       int64  // the order of the last waiter that asked for the hold
}

type claims struct {
	mu    sync.Mutex
	of    map[store.ID]*claim
	swept int // how many were left by the last sweep
}

// begin returns the record of the claim, a new one if there is none. A position that has
// expired starts again at the end of the queue.
func (s *Store) begin(c *store.Claim) *claim {
	now := store.Now()
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	cl := s.claims.of[c.ID]
	if cl == nil {
		s.claims.sweep(now)
		cl = &claim{order: s.wall(), begun: now}
		s.claims.of[c.ID] = cl
	} else if !cl.held && cl.place != 0 && now >= cl.place { //mutant:redlock-position-outlived
		cl.order, cl.begun = s.wall(), now
	}
	if !cl.held {
		cl.Claim = *c
	}
	return cl
}

// sweep forgets claims that ended long ago without a word from their owner. It runs when
// there are twice as many claims as the last sweep left.
func (c *claims) sweep(now store.Instant) {
	if len(c.of) < 1000 || len(c.of) < 2*c.swept {
		return
	}
	for id, cl := range c.of {
		if now > max(cl.place, cl.deadline).Add(time.Minute) && (cl.place != 0 || cl.deadline != 0) {
			delete(c.of, id)
		}
	}
	c.swept = len(c.of)
}

func (c *claims) get(id store.ID) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id]
}

func (c *claims) forget(id store.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, id)
}

// rename moves the record of a hold to its new id.
func (c *claims) rename(id, to store.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.of[id]; cl != nil {
		delete(c.of, id)
		cl.ID = to
		c.of[to] = cl
	}
}

// propose chooses the number of the next ask.
func (s *Store) propose(cl *claim) {
	p := max(s.number(), cl.p+1)
	if s.reaches(cl.newest) {
		p = max(p, cl.newest+1)
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	cl.p = p
}

// newTo reports whether the node has no entry of the claim, as far as is known: no ask was
// sent to the node, or it had no memory for the ask.
func (c *claim) newTo(n *node) bool {
	return c == nil || c.sent.Load()&(1<<n.i) == 0 || c.full.Load()&(1<<n.i) != 0 //mutant:redlock-refused-is-new
}

// refusedBy notes whether the node refused an ask, with err, because its memory is full.
func (c *claim) refusedBy(n *node, err error) {
	if err != nil && full(err) {
		c.full.Or(1 << n.i)
	} else {
		c.full.And(^uint32(1 << n.i))
	}
}

// number returns the newest number that the claim was asked for with. For a claim that this
// Store did not ask for, it returns one above all others.
func (c *claim) number() int64 {
	if c == nil {
		return math.MaxInt64 >> 10
	}
	return c.p
}
