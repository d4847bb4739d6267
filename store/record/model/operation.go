package main

import "slices"

// load reads the record and the inbox, in one request or in two.
func (o *one) load() {
	if !o.halves {
		o.step("reads", false, func(to *state, c *claim) {
			comes := c.at == wants
			c.starts()
			c.seen = to.inbox
			if to.read(o.rules, o.i); comes && o.unasked {
				c.over = 0
			}
			to.decide(o.rules, o.i)
		})
		return
	}
	o.step("reads the first half", false, func(to *state, c *claim) {
		c.starts()
		if c.step = halfway; o.has(inboxFirst) {
			c.ver, c.base, c.over, c.seen = vNone, record{}, 0, to.inbox
			return
		}
		to.read(o.rules, o.i)
		c.seen = list{}
	})
}

// peek reads only the record, which is enough for an ask.
func (o *one) peek() {
	o.step("reads the record alone", false, func(to *state, c *claim) {
		c.seen = list{}
		to.read(o.rules, o.i)
		c.unread = true
		to.decide(o.rules, o.i)
	})
}

// starts begins an operation of a waiter, which reads.
func (c *claim) starts() {
	if c.at == waits {
		c.at = wants
	}
}

func (o *one) secondHalf() {
	o.step("reads the second half", false, func(to *state, c *claim) {
		if o.has(inboxFirst) {
			to.read(o.rules, o.i)
		} else {
			c.seen = to.inbox
		}
		to.decide(o.rules, o.i)
	})
}

// edit returns what the claim's operation does to the record that it has read.
func (s *state) edit(r *rules, i int) edit {
	c := &s.c[i]
	marks := [2]int8{}
	for local := range int8(2) {
		if r.scheme == byMark && r.has(void) && c.late&bit(local) != 0 {
			marks[local] = c.number[local]
		}
	}
	ed := edit{void: marks, act: ask, who: i, local: c.sess, takes: c.seen, over: c.over | s.p[r.of(i)].lapsed<<uint(2*r.of(i))}
	switch {
	case c.goal == detaching:
		ed.act = detach
	case c.at == leaves:
		ed.act = leave
	case c.goal == moving:
		ed.act, ed.local = move, 1
	case c.goal == upgrading:
		ed.act = upgrade
	case c.goal == cancelling:
		ed.act = cancel
	case c.goal == adopting:
		ed.act = adopt
	}
	return ed
}

// decide sets what follows from what was read.
func (s *state) decide(r *rules, i int) {
	c := &s.c[i]
	c.step = decided
	ed := s.edit(r, i)
	next := r.apply(c.base, ed)
	mine := c.base.find(i)
	var e entry
	if mine >= 0 {
		e = c.base.e[mine]
	}
	force := c.open != vNone && r.has(force) // else an unanswered request may still be done
	for local, number := range ed.void {
		session := r.session(i, int8(local))
		force = force || number > c.base.marks[session] && ed.over&bit(session) == 0
	}
	helps := helps(&c.base, &next)
	if s.keepGrants(r, i); mine >= 0 && c.open == vNone && c.late == 0 {
		c.unsure = bit(e.session % 2)
	} else if mine < 0 && !c.seen.of(i) && c.open == vNone && c.late == 0 {
		c.unsure = 0
	}
	switch {
	case c.goal == detaching:
		c.plan = choose(mine >= 0 || force, toSwap, toGo)
	case c.at == leaves:
		c.plan = choose(mine >= 0 || c.seen.of(i) || force, toSwap, toGo)
	case c.goal == adopting:
		switch {
		case mine >= 0 && !force:
			c.plan = toHold
		case mine >= 0 || c.base.find(nobody) >= 0 || force:
			c.plan = toSwap
		case c.base.find(0) >= 0: // A's request may be on its way
			c.plan, c.step = undecided, begins
		default:
			c.plan = toLose
		}
	case c.at == wants:
		c.plan = s.decideAsk(r, i, e, mine >= 0, helps || force)
	case mine < 0 || e.is(broken):
		c.plan = toLose
	case c.goal == looking:
		c.plan = toHold
	case c.goal == moving:
		c.plan = choose(e.session != r.session(i, 1) || force, toSwap, toHold)
	case c.goal == upgrading:
		switch {
		case e.is(full) && !force:
			c.plan = toHold
		case !e.is(full|wanting) || helps || force:
			c.plan = toSwap
		default:
			c.plan = toWait
		}
	case c.goal == cancelling:
		c.plan = choose(e.is(full|wanting) || force, toSwap, toHold)
	}
}

func (s *state) decideAsk(r *rules, i int, e entry, there, must bool) plan {
	c := &s.c[i]
	own := r.session(i, c.sess)
	if r.either && there && e.session/2 == own/2 && s.p[r.of(i)].lapsed&bit(e.session%2) == 0 {
		own = e.session // it counts from that session
	}
	switch {
	case there && e.is(broken):
		return toLose
	case there && e.is(granted) && c.open == vNone && (e.session == own || !r.has(rebind)):
		return toHold
	case must || !there && (!s.noted(r, i) || r.asks(i)) || there && e.session != own:
		return toSwap
	}
	return toWait
}

func choose(yes bool, a, b plan) plan {
	if yes {
		return a
	}
	return b
}

// noted reports whether a note of the claim, under its present session, was in the inbox that it has read.
func (s *state) noted(r *rules, i int) bool {
	c := &s.c[i]
	return slices.ContainsFunc(c.seen.k[:c.seen.n], func(n note) bool {
		return n.key() == keyOf(i, c.sess) && !c.base.void(r, n)
	})
}

// keepGrants records the grants of other claims of the process in the record that was just read or written.
func (s *state) keepGrants(r *rules, i int) {
	for k := 0; r.keeps && k < r.n; k++ {
		c := &s.c[k]
		if at := s.c[i].base.find(k); k != i && r.of(k) == r.of(i) && c.at == waits && at >= 0 {
			if e := s.c[i].base.e[at]; e.is(granted) && e.session == r.session(k, c.sess) && s.lives(r, k) {
				c.kept = uint8(c.sess) + 1
			}
		}
	}
}

// does has the steps that were decided.
func (o *one) does() {
	c := o.c
	switch c.plan {
	case toSwap:
		o.swap()
	case toHold:
		o.step("finds itself "+goalDone[c.goal], false, func(_ *state, c *claim) { o.found(c) })
	case toWait:
		if c.at == holds {
			o.step("finds its upgrade pending", false, func(_ *state, c *claim) { c.step, c.plan, c.in = begins, undecided, true })
			return
		}
		o.step("finds itself waiting", false, func(_ *state, c *claim) {
			at := c.base.find(o.i)
			c.at, c.in = waits, at >= 0 || o.patient && !o.has(lookOn)
			if o.next && at > 0 {
				c.ahead = c.base.e[at-1].session + 1
			}
		})
	case toGo:
		o.step("finds nothing of itself", false, func(_ *state, c *claim) { c.at = done })
	case toLose:
		o.step("finds itself lost", false, func(_ *state, c *claim) { c.leave() })
	}
}

var goalDone = [...]string{none: "granted", moving: "moved", upgrading: "upgraded", cancelling: "back", adopting: "to have adopted it", looking: "holding"}

// found is the answer if nothing had to be written.
func (o *one) found(c *claim) {
	e := c.base.e[max(c.base.find(o.i), 0)]
	switch c.goal {
	case looking, upgrading, cancelling:
		c.has = e.is(full)
		c.goal, c.step, c.plan = none, begins, undecided
		c.tells(o.rules, o.asked(&c.base, c.over))
		if !o.has(callHeard) {
			c.reads = false
		}
	case moving:
		c.hold(1)
		c.tells(o.rules, o.has(moveTells) && o.asked(&c.base, c.over))
	default:
		if o.has(rebind) && e.session/2 == int8(o.of(o.i)) {
			c.sess = e.session % 2
		}
		if o.s.p[o.of(o.i)].lapsed&bit(c.sess) != 0 {
			c.leave() // its session has expired since the record was read
		} else {
			c.hold(c.sess)
			c.asked = o.has(grantTells) && o.asked(&c.base, c.over)
		}
	}
}

// swap writes, or leaves a note if that is refused.
func (o *one) swap() {
	s, c := o.s, o.c
	ed := s.edit(o.rules, o.i)
	q := request{kind: swap, who: int8(o.i), local: ed.local, ver: c.ver, takes: c.seen}
	if c.ver == vNone {
		if q.ver = vOld; o.bounds.deletes > 0 {
			q.ver = vAbsent // perhaps there is none
		}
	}
	if q.ver >= vNow {
		q.data = o.apply(c.base, ed)
	} else {
		q.takes = list{}
	}
	asks := ed.act == ask
	q.joins = asks && !o.apart && o.mayJoin(s, c, q.local)
	q.called = s.p[o.of(o.i)].behind&bit(q.local) != 0
	if q.joins && o.scheme == byMark {
		q.number = s.p[o.of(o.i)].joins[q.local] + 1
	}
	sent := func(to *state, c *claim) {
		if c.open = q.ver; asks || ed.act == move {
			c.unsure |= bit(q.local)
		}
		if q.joins {
			c.isLate(o, to, &q)
		}
		c.ver, c.base, c.seen, c.over = vOld, record{}, list{}, 0
		c.step, c.plan = begins, undecided
	}
	o.unanswered("swaps", q, func(to *state, c *claim) {
		if sent(to, c); q.ver < vNow { // it can only join
			to.tidyRequests()
		}
	})
	landed := func(to *state, c *claim) {
		if to.lands(o.rules, &q) {
			o.swapped(to, c, ed)
			return
		}
		joined := q.joins && to.inbox.has(q.note())
		if joined {
			to.p[o.of(o.i)].joins[q.local] = q.number
		}
		c.ver, c.base, c.seen, c.over = vOld, record{}, list{}, 0
		switch c.step, c.plan = begins, undecided; {
		case asks && o.apart && o.mayJoin(to, c, q.local):
			c.step = joins
		case joined:
			c.waitJoined(o.rules, q.local)
		}
	}
	o.step("swaps", false, landed)
	if s.left.copies > 0 && q.joins && q.ver != s.ver && s.free() >= 0 {
		o.step("swaps, and joins twice, the second time later", true, func(to *state, c *claim) {
			to.left.copies--
			q := q
			q.ver, q.data, q.takes = vOld, record{}, list{}
			to.late[to.free()] = q
			landed(to, c)
		})
	}
}

// swapped is how a claim handles the answer that its swap was done.
func (o *one) swapped(to *state, c *claim, ed edit) {
	c.base, c.ver, c.seen, c.unread = to.rec, to.ver, list{}, o.peeks
	if o.scheme == byMark && o.has(void) {
		c.late, c.number = 0, [2]int8{} // they are marked
	}
	if c.over, c.joined, c.open = 0, false, vNone; o.order && o.has(tells) && !o.peeks {
		c.seen = to.inbox
	}
	to.keepGrants(o.rules, o.i)
	c.step, c.plan = begins, undecided
	at := c.base.find(o.i)
	switch ed.act {
	case leave, detach:
		c.at = done
	case move:
		c.hold(1)
		c.tells(o.rules, o.has(moveTells) && o.asked(&c.base, 0))
	case upgrade, cancel:
		if c.in = true; ed.act == cancel || at >= 0 && c.base.e[at].is(full) {
			c.has, c.goal, c.in = ed.act == upgrade, none, false
		}
	case adopt:
		if at < 0 {
			c.leave()
		} else if to.lives(o.rules, o.i) {
			c.hold(c.sess)
		} else {
			c.leave()
		}
	default:
		c.unsure = bit(ed.local)
		c.at, c.in = waits, true
		if o.next && at > 0 {
			c.ahead = c.base.e[at-1].session + 1
		}
		if c.base.e[at].is(granted) && to.lives(o.rules, o.i) {
			c.hold(ed.local)
			c.asked = o.has(grantTells) && o.asked(&c.base, 0)
		}
	}
}

// joinApart sends the join as a request of its own, after the swap was refused.
func (o *one) joinApart() {
	q := request{kind: swap, who: int8(o.i), local: o.c.sess, ver: vOld, joins: true}
	q.called = o.s.p[o.of(o.i)].behind&bit(q.local) != 0
	if o.scheme == byMark {
		q.number = o.s.p[o.of(o.i)].joins[q.local] + 1
	}
	o.unanswered("joins", q, func(to *state, c *claim) {
		c.isLate(o, to, &q)
		c.unsure |= bit(q.local)
		c.again(wants)
	})
	o.step("joins", false, func(to *state, c *claim) {
		if c.again(wants); to.join(o.rules, &q) {
			to.p[o.of(o.i)].joins[q.local] = q.number
			c.waitJoined(o.rules, q.local)
		}
	})
}

// waitJoined handles the answer to its join.
func (c *claim) waitJoined(r *rules, local int8) {
	c.at, c.in, c.joined = waits, r.patient && !r.has(lookOn), r.shared
	c.unsure |= bit(local)
}

// mayJoin reports whether a claim that asks may leave a note. If an operator may break its hold, the claim may leave
// one unless an entry of it may be in the record. Elsewhere the model lets it leave more notes than the code does.
func (o *one) mayJoin(s *state, c *claim, local int8) bool {
	once := !o.has(onceJoined) || o.bounds.breaks == 0 || c.unsure&bit(local) == 0
	return o.scheme != noJoin && c.late == 0 && !s.inbox.of(o.i) && once
}

// isLate records that a join of the claim was not answered.
func (c *claim) isLate(o *one, to *state, q *request) {
	c.late, c.joined = c.late|bit(q.local), o.shared
	c.number[q.local], to.p[o.of(o.i)].joins[q.local] = q.number, q.number
}

// tidyRequests drops requests that can have no effect.
func (s *state) tidyRequests() {
	for i := range s.late {
		if q := &s.late[i]; q.kind == swap && q.ver == vOld && !q.joins {
			*q = request{}
		}
	}
	s.sortLate()
}
