package main

// An act is what an operation does to the record.
type act uint8

const (
	ask act = iota
	leave
	move
	upgrade
	cancel
	detach
	adopt
)

// An edit is everything that determines the next record.
type edit struct {
	act   act
	who   int
	local int8    // which session of the claim's process
	takes list    // notes that are taken in
	over  uint8   // sessions that are skipped
	void  [2]int8 // with byMark: the number up to which to mark joins void, under the first and the second session
}

// apply returns what a client makes of a record that it has read.
func (r *rules) apply(q record, ed edit) record {
	if !r.has(keepMark) {
		q.marks = [2 * maxClaims]int8{}
	}
	for k := range q.marks {
		if ed.over&bit(k) != 0 {
			q.marks[k] = 0 // no join of that session is taken in anyway
		}
	}
	for i := int(q.n) - 1; i >= 0; i-- {
		e := q.e[i]
		if ed.over&bit(e.session) != 0 && !(ed.act == ask && int(e.claim) == ed.who) {
			q.drop(i)
		}
	}
	for _, k := range ed.takes.k[:ed.takes.n] {
		session := r.sessionOf(k)
		if ed.over&bit(session) != 0 || q.void(r, k) {
			continue
		}
		if r.scheme == byMark && r.has(markTaken) {
			q.marks[session] = k.number()
		}
		if q.find(k.claim()) < 0 {
			q.e[q.n] = r.entryOf(k.claim(), session)
			q.n++
		}
	}
	for local, number := range ed.void {
		if s := r.session(ed.who, int8(local)); ed.over&bit(s) == 0 {
			q.marks[s] = max(q.marks[s], number)
		}
	}
	r.act(&q, ed)
	r.settle(&q)
	return q
}

// act does what the operation is for.
func (r *rules) act(q *record, ed edit) {
	mine, session := q.find(ed.who), r.session(ed.who, ed.local)
	switch {
	case ed.act == ask && mine < 0:
		r.pushOut(q, ed.who)
		q.e[q.n] = r.entryOf(ed.who, session)
		if q.n++; !r.has(behind) {
			q.e[0], q.e[q.n-1] = q.e[q.n-1], q.e[0]
		}
	case ed.act == leave:
		if mine >= 0 {
			q.drop(mine)
		}
	case ed.act == adopt:
		if at := q.find(nobody); at >= 0 {
			if q.e[at].claim = int8(ed.who); r.has(adoptSession) {
				q.e[at].session = session
			}
		}
	case mine < 0:
	case ed.act == ask || ed.act == move:
		q.e[mine].session = session
	case ed.act == upgrade:
		if e := &q.e[mine]; !e.is(full) && !e.is(broken) {
			e.flags |= wanting
		}
	case ed.act == cancel:
		q.e[mine].flags &^= wanting | full
	case ed.act == detach:
		q.e[mine].claim, q.e[mine].session = nobody, detached
	}
}

// settle grants in order: a pending upgrade before all waiters. The first that does not fit blocks the rest.
func (r *rules) settle(q *record) {
	held, least := int8(0), r.limit
	for _, e := range q.e[:q.n] {
		if e.is(granted) {
			held += r.weighs(e)
		}
		if e.is(granted) && r.has(heldTotals) || !e.is(granted) && !r.has(waitTotals) {
			least = min(least, r.total(e))
		}
	}
	for i := range q.e[:q.n] {
		if e := &q.e[i]; e.is(wanting) {
			if held-r.weighs(*e)+r.limit > r.limit {
				return
			}
			e.flags = e.flags&^wanting | full
			return
		}
	}
	for i := range q.e[:q.n] {
		e := &q.e[i]
		if e.is(granted) {
			continue
		}
		total := r.total(*e)
		if r.has(ownTotal) && held+r.weighs(*e) > total || held+r.weighs(*e) > least {
			return
		}
		if held += r.weighs(*e); r.has(heldTotals) {
			least = min(least, total)
		}
		r.grant(q, i)
	}
}

func (r *rules) weighs(e entry) int8 {
	switch {
	case e.is(full):
		return r.limit
	case e.claim == nobody:
		return r.weight[0] // A is the one that hands its hold on
	}
	return r.weight[e.claim]
}

// total returns the limit that a claim was asked for with.
func (r *rules) total(e entry) int8 {
	if e.claim == nobody {
		e.claim = 0
	}
	return r.totals[e.claim]
}

// pushOut removes holds that do not fit under the total of a new claim, which the protocol never does.
func (r *rules) pushOut(q *record, claim int) {
	held := int8(0)
	for i := 0; i < int(q.n) && !r.has(holdsStay); i++ {
		if e := q.e[i]; e.is(granted) && held+r.weighs(e) > r.totals[claim] {
			q.drop(i)
			i--
		} else if e.is(granted) {
			held += r.weighs(e)
		}
	}
}

// helps reports whether a claim fits in now that did not fit in was.
func helps(was, now *record) bool {
	for _, e := range now.e[:now.n] {
		at := was.find(int(e.claim))
		if e.flags&(granted|full) != 0 && (at < 0 || e.flags&^was.e[at].flags&(granted|full) != 0) {
			return true
		}
	}
	return false
}
