package main

import "math/bits"

// asks reports whether a claim asks the holders to give up as long as it waits. That is the last claim, if any.
func (r *rules) asks(claim int) bool { return r.giveUp && claim == r.n-1 }

// asked reports whether a read of a record shows that a waiter asks to give up.
func (r *rules) asked(q *record, over uint8) bool {
	for _, e := range q.e[:q.n] {
		if e.is(giveItUp) && (over&bit(e.session) == 0 || !r.has(livingAsk)) {
			return true
		}
	}
	return false
}

// entryOf returns a new entry.
func (r *rules) entryOf(claim int, session int8) entry {
	e := entry{claim: int8(claim), session: session}
	if r.asks(claim) {
		e.flags = giveItUp
	}
	return e
}

// grant makes an entry of a record a hold.
func (r *rules) grant(q *record, i int) {
	e := &q.e[i]
	e.flags = e.flags&^giveItUp | granted
	if r.asked(q, 0) {
		e.flags |= whileAsked
	}
}

// holdersRead is the bit of claim.uncalled that says that the holders were read.
const holdersRead = 1 << 7

// asksHolders is the extra work of a claim that asks: it reads the holders, and calls the session
// of each.
func (o *one) asksHolders() {
	c := o.c
	if !o.asks(o.i) || !c.in && o.has(markFirst) {
		return
	}
	if c.uncalled == 0 {
		o.step("reads who holds, to ask them to give up", false, func(to *state, c *claim) {
			c.uncalled = holdersRead
			for _, e := range to.rec.e[:to.rec.n] {
				if e.is(granted) {
					c.uncalled |= bit(e.session)
				}
			}
		})
		return
	}
	if c.uncalled == holdersRead {
		return
	}
	session := int8(bits.TrailingZeros8(c.uncalled))
	process, local := session/2, session%2
	o.step("calls the session of "+names[process]+"'s hold", false, func(to *state, c *claim) {
		to.call(o.rules, int(process), local)
		c.uncalled &^= bit(session)
	})
	o.unanswered("calls the session of "+names[process]+"'s hold", request{kind: call, who: process, local: local}, func(_ *state, c *claim) {
		if !o.has(callAgain) {
			c.uncalled &^= bit(session)
		}
	})
}

// tells records what a holder learns from its read or write, and whether it keeps reading.
func (c *claim) tells(r *rules, asked bool) { c.heard, c.asked = asked, asked && r.has(readsOn) }

// holdTold makes a waiter a holder by a notification, which says whether another claim had asked to give up when it
// was granted.
func (o *one) holdTold(to *state, c *claim) {
	at := to.rec.find(o.i)
	c.hold(c.sess)
	c.asked = o.has(noticeTells) && at >= 0 && to.rec.e[at].is(whileAsked)
}

// heeds reports whether a call of some sessions is a call of a hold, or of a claim that may be one by now. If no
// claim asks to give up, each hold of the process reads.
func (r *rules) heeds(c *claim, called uint8) bool {
	if !r.giveUp {
		return c.at == holds
	}
	return (c.at == holds || c.at == wants) && called&(bit(c.sess)|c.unsure) != 0
}

// mayRelease reports whether a holder may release. If a claim asks, the others keep their holds until they learn
// of that, or no claim will ask any more.
func (o *one) mayRelease() bool {
	switch {
	case !o.giveUp:
		return !o.hogs || o.i != 0 || o.c.has
	case o.hogs:
		return o.i != 0
	}
	return o.asks(o.i) || o.c.heard || o.s.c[o.n-1].at >= done
}

// keepsOn reports whether A, which never releases, knows the present requests: then the end state is good if no
// other claim is left.
func (r *rules) keepsOn(s *state, claim int) bool {
	return r.giveUp && r.hogs && claim == 0 && s.c[0].at == holds && !s.c[0].heard
}
