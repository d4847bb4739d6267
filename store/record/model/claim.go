package main

// A stepper receives the steps that can follow.
type stepper func(what string, fault bool, change func(to *state, c *claim))

// one is claim i of a state, with the steps that may follow for it.
type one struct {
	*rules
	s    *state
	i    int
	c    *claim
	step stepper
}

// claimSteps yields what claim i may do, and what may happen to it.
func (s *state) claimSteps(r *rules, i int, yield func(what string, who int, fault bool, to state)) {
	o := one{r, s, i, &s.c[i], nil}
	o.step = func(what string, fault bool, change func(to *state, c *claim)) {
		to := *s
		change(&to, &to.c[i])
		to.forget()
		yield(what, i, fault, to)
	}
	if o.c.at >= done {
		return
	}
	o.faults()
	switch o.c.at {
	case idle:
		o.comes()
	case wants, leaves:
		o.operates()
	case waits:
		o.waiting()
	case holds:
		o.holding()
	}
}

// forget drops state that is never read again.
func (s *state) forget() {
	for k := range s.c {
		c := &s.c[k]
		if c.at != holds {
			c.heard, c.asked = false, false
		}
		if c.at != wants && c.at != waits {
			c.uncalled = 0
		}
		if c.at == waits {
			c.step, c.plan = begins, undecided
		}
		c.clean()
		switch c.at {
		case done, dead:
			*c = claim{at: c.at}
		case waits:
		default:
			if c.ahead = 0; c.at != wants && c.goal != upgrading {
				c.in = false
			}
		}
	}
}

// mates calls f with the claims of the process.
func (o *one) mates(to *state, f func(k int, c *claim)) {
	for k := range o.n {
		if o.of(k) == o.of(o.i) {
			f(k, &to.c[k])
		}
	}
}

// faults yields what takes something from the process.
func (o *one) faults() {
	s, own := o.s, o.of(o.i)
	first := true // the first claim of the process, so that each fault happens once
	for k := range o.i {
		first = first && (o.of(k) != own || s.c[k].at >= done)
	}
	if s.left.deaths > 0 && first {
		o.step("its process is killed", true, func(to *state, _ *claim) {
			to.left.deaths--
			to.p[own] = process{lapsed: 3}
			o.mates(to, func(_ int, c *claim) {
				if c.at != done {
					c.at = dead
				}
			})
		})
	}
	if s.left.ends > 0 && first {
		o.step("its process closes: it ends its sessions", false, func(to *state, _ *claim) {
			to.left.ends--
			to.ended |= 3 << uint(2*own)
			if o.has(endLast) {
				to.p[own] = process{lapsed: 3}
				o.mates(to, func(_ int, c *claim) { c.at = done })
			}
		})
	}
	for local := range int8(2) {
		if s.left.lapses == 0 || s.p[own].lapsed&bit(local) != 0 || !o.moves && local != o.c.sess || !first && o.has(together) {
			continue
		}
		o.step("its "+sessionNames[local]+" session runs out by its clock", true, func(to *state, c *claim) {
			to.left.lapses--
			to.behind = [maxClaims]int8{} // a repeated claim is behind the others
			to.p[own].lapsed |= bit(local)
			if !o.has(together) {
				c.lapse(o.rules, local, to.p[own].lapsed)
				return
			}
			o.mates(to, func(_ int, c *claim) { c.lapse(o.rules, local, to.p[own].lapsed) })
		})
	}
}

var sessionNames = [...]string{"first", "second"}

// lapse changes the state of a claim after a session of its process has expired.
func (c *claim) lapse(r *rules, local int8, lapsed uint8) {
	if c.kept == uint8(local)+1 && r.has(keptFrom) {
		c.kept = 0
	}
	elsewhere := (c.unsure | c.late) &^ bit(local)
	switch {
	case c.at >= done:
	case c.at == holds:
		counts := local == c.sess
		if r.moves && c.unsure&2 != 0 { // a move is under way
			switch {
			case local == 0:
				counts = c.sess == 0 && r.has(countShort) || c.sess == 1
			default:
				counts = c.sess == 1 || r.has(countLong)
			}
		}
		if counts {
			if c.leave(); r.moves && !r.has(takeOut) {
				c.at = done // if its session has ended, nothing of it is left
			}
		} else if c.goal == moving && local == 1 {
			c.goal, c.reads = none, c.reads || r.giveUp // its result was not returned
			c.again(holds)
		}
	case local != c.sess || c.at == leaves:
	case lapsed == 3 || r.moves:
		switch {
		case c.at == idle:
			c.at = done
		case r.moves && elsewhere == 0 && c.open == vNone, r.moves && !r.has(unsure):
			c.at = done // its entry, if there is one, ends with the session
		default:
			c.leave()
		}
	default: // it continues in the other session
		if c.sess, c.uncalled = 1-local, 0; c.at != idle {
			c.again(wants)
		}
	}
}

// again starts over: the record read before is kept only as a base for a swap.
func (c *claim) again(at place) {
	if c.step == halfway {
		c.ver, c.base, c.seen, c.over = vOld, record{}, list{}, 0
	}
	c.at, c.step, c.plan = at, begins, undecided
}

func (c *claim) leave() {
	c.goal, c.has, c.kept = none, false, 0
	c.again(leaves)
}

func (o *one) comes() {
	if o.adopter(o.i) {
		if o.s.begun {
			o.step("is handed the hold of A", false, func(_ *state, c *claim) { c.at, c.goal = wants, adopting })
		}
		o.step("is handed nothing", false, func(_ *state, c *claim) { c.at = done })
		return
	}
	o.step("comes", false, func(_ *state, c *claim) {
		if c.at = wants; o.either {
			c.sess = 1
		}
	})
}

// waiting has the steps of a waiter.
func (o *one) waiting() {
	s, c := o.s, o.c
	at := s.rec.find(o.i)
	look := !o.patient || !c.in || c.reads || c.ahead > 0 && s.ended&bit(c.ahead-1) != 0
	if !o.next && o.has(watchAhead) {
		for k := range at {
			look = look || s.ended&bit(s.rec.e[k].session) != 0
		}
	}
	if look || o.bounds.drops > 0 && o.has(polls) {
		o.load()
	}
	if o.mayGiveUp() {
		o.step("gives up", false, func(_ *state, c *claim) { c.leave() })
	}
	if !o.notifications && !o.keeps && at >= 0 && s.rec.e[at].is(granted) && s.rec.e[at].session == o.session(o.i, c.sess) && s.lives(o.rules, o.i) {
		o.step("is notified of its grant", false, o.holdTold)
	}
	o.asksHolders()
	o.notified()
	o.keptGrant()
	o.takenIn()
}

// takenIn has the step of a notification that the note of a claim was taken in, and under which session. It may be
// late.
func (o *one) takenIn() {
	for local := range int8(2) {
		if o.s.reported&bit(keyOf(o.i, local)) != 0 && !o.c.in && (local == o.c.sess || !o.has(toldSession)) {
			o.step("is told that its note was taken in", false, func(_ *state, c *claim) { c.in = true })
		}
	}
}

func (o *one) mayGiveUp() bool { return !o.patient || o.next && o.i == 1 }

func (c *claim) hold(local int8) {
	c.at, c.goal, c.step, c.plan = holds, none, begins, undecided
	c.sess, c.unsure, c.kept = local, 0, 0
}

// notified has the step of a notification of a grant, with the session of its entry. It may be late or duplicated.
func (o *one) notified() {
	for local := range int8(2) {
		if o.s.notifications&bit(keyOf(o.i, local)) == 0 {
			continue
		}
		own := local == o.c.sess && o.s.lives(o.rules, o.i)
		if o.c.at == waits && (own || !o.has(hintSession) && o.s.lives(o.rules, o.i)) || !o.has(hintWaits) && o.c.at == leaves && own {
			o.step("is notified of a grant", false, o.holdTold)
		}
	}
}

// keptGrant has the step in which a grant that another operation of the process has seen, and kept, answers the next
// ask.
func (o *one) keptGrant() {
	if o.c.kept != 0 {
		o.step("asks, and is answered with the grant kept", false, func(_ *state, c *claim) {
			if local := int8(c.kept) - 1; o.has(keptFrom) {
				c.hold(local)
			} else {
				c.hold(c.sess) // as if it had been granted by this ask
			}
		})
	}
}

// operates has the steps of an operation of the claim: void, read, decide, do; again, until it is done.
func (o *one) operates() {
	c := o.c
	switch c.step {
	case begins:
		o.begin()
	case halfway:
		o.secondHalf()
	case joins:
		o.joinApart()
	case decided:
		if o.mustVoid() && !o.has(voidFirst) {
			o.call()
			return
		}
		o.does()
	}
}

// mustVoid reports whether a join of the claim was not answered, and a call can make it void.
func (o *one) mustVoid() bool { return o.c.late != 0 && o.scheme == byCall && o.has(void) }

func (o *one) begin() {
	s, c := o.s, o.c
	if o.notified(); c.at == wants && c.kept != 0 {
		o.keptGrant()
	}
	if c.at == wants && o.mayGiveUp() {
		o.step("gives up", false, func(_ *state, c *claim) { c.leave() })
	}
	if o.either && c.at == wants && c.sess == 1 && s.p[o.of(o.i)].lapsed&1 == 0 {
		o.step("asks in the short session from now on", false, func(_ *state, c *claim) { c.sess = 0 })
	}
	if s.p[o.of(o.i)].behind != 0 {
		o.renews()
	}
	if !o.has(markFirst) {
		o.asksHolders()
	}
	if o.mustVoid() && o.has(voidFirst) {
		o.call()
		return
	}
	o.load()
	cached := c.open == vNone && c.late == 0 && !(c.joined && o.has(ownRead))
	if cached && c.at == wants && o.peeks {
		o.peek()
	}
	switch {
	case c.goal == adopting || c.goal == detaching:
	case c.at == leaves && c.unread && o.has(takeFirst): // it reads the notes in the inbox first
	case cached && c.at == wants || cached && c.ver >= vNow:
		o.swap() // on the record that it remembers, or on none
	}
	if !o.shared || c.ver >= vNow || c.joined && o.has(ownRead) {
		return
	}
	for k := range o.n {
		if mate := s.c[k]; k != o.i && o.of(k) == o.of(o.i) && mate.ver >= vNow && mate.step != halfway {
			o.step("takes what its process remembers", false, func(_ *state, c *claim) {
				c.base, c.ver, c.seen, c.over, c.unread = mate.base, mate.ver, mate.seen, mate.over, mate.unread
			})
		}
	}
}

// renews is a renewal, which learns the call counters of the sessions. If a session was called, its holds are read.
func (o *one) renews() {
	o.step("renews, and is told of a call", false, func(to *state, _ *claim) {
		called := to.p[o.of(o.i)].behind
		to.p[o.of(o.i)].behind = 0
		o.mates(to, func(_ int, c *claim) { c.reads = c.reads || o.heeds(c, called) })
	})
}

// call makes the unanswered requests under one session void.
func (o *one) call() {
	for local := range int8(2) {
		if o.c.late&bit(local) == 0 {
			continue
		}
		o.step("calls its "+sessionNames[local]+" session", false, func(to *state, c *claim) {
			to.call(o.rules, o.of(o.i), local)
			c.late &^= bit(local)
		})
		o.unanswered("calls its "+sessionNames[local]+" session", request{kind: call, who: int8(o.i), local: local}, func(to *state, c *claim) {
			if !o.has(callAgain) {
				c.late &^= bit(local)
			}
		})
		return
	}
}

// unanswered sends a request that gets no answer.
func (o *one) unanswered(what string, q request, change func(to *state, c *claim)) {
	if o.s.left.silent == 0 || o.s.free() < 0 {
		return
	}
	o.step(what+", and hears nothing", true, func(to *state, c *claim) {
		to.left.silent--
		to.late[to.free()] = q
		change(to, c)
	})
}
