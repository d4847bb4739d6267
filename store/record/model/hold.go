package main

// holding has the steps of a holder.
func (o *one) holding() {
	s, c := o.s, o.c
	if o.mayRelease() {
		o.step("releases", false, func(_ *state, c *claim) { c.leave() })
	}
	if s.p[o.of(o.i)].behind != 0 {
		o.renews()
	}
	if o.detaches && o.i == 0 && c.goal == none {
		o.step("hands its hold on", false, func(to *state, c *claim) {
			if to.begun = true; o.has(handFirst) {
				c.leave()
			}
			c.goal = detaching
		})
	}
	switch {
	case c.goal != none:
		o.changes()
	case c.reads:
		o.step("reads, as it was called", false, func(_ *state, c *claim) { c.goal = looking })
	case o.moves && c.sess == 0 && s.p[o.of(o.i)].lapsed&2 == 0:
		o.step("moves to the long session", false, func(_ *state, c *claim) { c.goal = moving })
	case c.asked:
		o.step("reads, as it was asked", false, func(_ *state, c *claim) { c.goal = looking })
	case o.upgrades && o.i == 0 && !c.has:
		o.step("asks for an upgrade", false, func(_ *state, c *claim) { c.goal = upgrading })
	case o.upgrades && o.i == 0:
		o.step("goes back to its weight", false, func(_ *state, c *claim) { c.goal, c.has = cancelling, !o.has(downFirst) })
	}
}

// changes has the steps of a change of weight by a holder.
func (o *one) changes() {
	c := o.c
	switch c.step {
	case begins:
		if c.goal == upgrading && c.in { // pending
			o.pending()
			return
		}
		o.load()
		if c.ver >= vNow && c.open == vNone && c.goal != looking {
			o.swap()
		}
	case halfway:
		o.secondHalf()
	case decided:
		o.does()
	}
}

// pending has the steps of a holder whose upgrade was asked for, and not granted yet.
func (o *one) pending() {
	if o.s.news&bit(o.i) != 0 {
		o.step("is notified of its upgrade", false, func(to *state, c *claim) {
			to.news &^= bit(o.i)
			c.in = false
		})
	}
	if o.has(wantReads) {
		o.step("renews, and reads as its upgrade is pending", false, func(_ *state, c *claim) { c.in = false })
	}
	if !o.patient {
		o.step("gives its upgrade up", false, func(_ *state, c *claim) { c.goal, c.in = cancelling, false })
	}
}

// adopter reports whether a claim is to adopt the hold of A.
func (r *rules) adopter(i int) bool { return r.detaches && i == 1 }

// calledBefore is the value of state.called if the operator has called the session first, which is the wrong order.
const calledBefore = -1

// operator is a process without a claim that breaks a hold: it writes that, and then calls the
// session.
func (s *state) operator(r *rules, step func(what string, who int, fault bool, change func(to *state))) {
	if s.called > 0 {
		session := s.called - 1
		step("calls the session of the hold", operator, false, func(to *state) {
			to.call(r, int(session/2), session%2)
			to.called = 0
		})
	}
	for i, e := range s.rec.e[:s.rec.n] {
		switch {
		case s.left.breaks == 0 || !e.is(granted) || e.is(broken) || e.claim != 0: // only A's hold is broken
		case !r.has(callAfter) && s.called != calledBefore:
			step("calls the session of "+names[e.claim]+"'s hold", operator, false, func(to *state) {
				to.call(r, int(e.session/2), e.session%2)
				to.called = calledBefore
			})
		default:
			step("breaks the hold of "+names[e.claim], operator, false, func(to *state) {
				to.left.breaks--
				now := to.rec
				now.e[i].flags = now.e[i].flags&^wanting | broken
				r.settle(&now)
				if to.write(r, operator, now, list{}); r.has(callAfter) {
					to.called = e.session + 1
				} else {
					to.called = 0
				}
			})
		}
	}
}

var names = [...]string{"A", "B", "C", "–"}
