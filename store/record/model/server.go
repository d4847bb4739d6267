package main

import "slices"

// read gives a claim the present record.
func (s *state) read(r *rules, i int) {
	c := &s.c[i]
	c.base, c.ver, c.over, c.reads, c.unread = s.rec, s.ver, s.ended, false, false
	if c.open != s.ver {
		c.open = vNone // its base is gone
	}
	if c.joined = c.joined && s.inbox.of(i); !r.has(final) {
		for k := range maxClaims {
			if k != r.of(i) {
				c.over |= 3 << uint(2*k) // other sessions were not seen for a while
			}
		}
	}
}

// lands does a request, and reports whether it was a swap that was done.
func (s *state) lands(r *rules, q *request) bool {
	switch q.kind {
	case call:
		s.call(r, r.of(int(q.who)), q.local)
	case swap:
		if q.ver == s.ver && s.allThere(r, &q.takes) {
			s.write(r, int(q.who), q.data, q.takes)
			return true
		}
		if q.joins {
			s.join(r, q)
		}
	}
	return false
}

// allThere reports whether the notes that a swap takes in still exist.
func (s *state) allThere(r *rules, takes *list) bool {
	if !r.has(takeInOnly) || r.water {
		return true
	}
	for _, k := range takes.k[:takes.n] {
		if !s.inbox.has(k) {
			return false
		}
	}
	return true
}

func (q *request) note() note { return noteOf(keyOf(int(q.who), q.local), q.number) }

// join leaves a note, if what it depends on holds.
func (s *state) join(r *rules, q *request) (left bool) {
	k := q.note()
	if r.scheme == byCall && (q.called || s.ended&bit(r.sessionOf(k)) != 0) {
		return false
	}
	if !s.inbox.has(k) {
		s.inbox.add(k)
	}
	return true
}

// call increments the call counter of a session: all joins under way that depend on it are void.
func (s *state) call(r *rules, process int, local int8) {
	s.p[process].behind |= bit(local)
	for k := range s.late {
		if q := &s.late[k]; q.kind == swap && r.of(int(q.who)) == process && q.local == local {
			q.called = true
		}
	}
}

// write replaces the newest record.
func (s *state) write(r *rules, who int, now record, takes list) {
	was, notes := s.rec, s.inbox
	s.rec = now
	s.inbox.keep(func(k note) bool { return !takes.has(k) })
	if r.water && r.bounds.deletes > 0 {
		for _, k := range takes.k[:takes.n] {
			if !s.passed.has(k) {
				s.passed.add(k)
			}
		}
	}
	s.another(r)
	for _, e := range now.e[:now.n] {
		at := was.find(int(e.claim))
		if e.claim == nobody || int(e.claim) == who {
			continue
		}
		if r.reported && at < 0 && !e.is(granted) {
			s.reported |= bit(keyOf(int(e.claim), e.session%2))
			s.c[e.claim].ahead = 0 // until it is notified, or reads
		}
		if r.notifications && e.is(granted) && (at < 0 || !was.e[at].is(granted)) {
			s.notifications |= bit(keyOf(int(e.claim), e.session%2))
		}
		if e.is(full) && at >= 0 && !was.e[at].is(full) {
			s.news |= bit(e.claim)
		}
	}
	for i := 1; r.next && r.has(tellBehind) && i < int(now.n); i++ {
		if e := now.e[i]; e.claim != nobody {
			s.c[e.claim].heed(r, now.e[i-1].session)
		}
	}
	if r.order {
		s.overtaken(r, &was, &notes)
	}
}

// heed is how a claim handles the notification that another entry is directly ahead of it now.
func (c *claim) heed(r *rules, session int8) {
	switch {
	case c.at == waits && (c.in || r.reported):
		c.ahead = session + 1
	case c.at == wants && r.has(heedBusy):
		c.reads = true // the operation under way may have read an older record
	}
}

// another gives the record a new version: from now on, whatever depends on the previous one is refused.
func (s *state) another(r *rules) {
	switch {
	case r.bounds.deletes == 0:
	case r.has(newVersion):
		s.top++
		s.ver = s.top
	default:
		s.ver++ // one more than before, counted from the creation of the record
	}
	s.tidy(r)
}

// tidy merges states that differ only in what can no longer matter.
func (s *state) tidy(r *rules) {
	gone := func(v int8) bool {
		switch {
		case v <= vOld:
			return false
		case r.bounds.deletes == 0:
			return true // called after each write
		}
		return r.has(newVersion) && v != s.ver && v != vAbsent
	}
	for i := range s.c {
		c := &s.c[i]
		if gone(c.open) {
			c.open = vOld
		}
		if gone(c.ver) {
			c.ver = vOld
			c.clean()
		}
	}
	for i := range s.late {
		if q := &s.late[i]; q.kind == swap && gone(q.ver) {
			q.ver, q.data, q.takes = vOld, record{}, list{}
		}
	}
	s.tidyRequests()
}

// clean drops a record that was read and is of no more use. An answer that is still to be given depends on it.
func (c *claim) clean() {
	if c.ver == vOld && c.step != halfway && (c.step != decided || c.plan == toSwap) {
		c.base, c.seen, c.over, c.unread = record{}, list{}, 0, false
	}
}

// sortLate moves requests to the front: the slot of a request has no meaning.
func (s *state) sortLate() {
	n := 0
	for i := range s.late {
		if s.late[i].kind != nothing {
			s.late[n], s.late[i] = s.late[i], s.late[n]
			n++
		}
	}
}

// overtaken counts the claims that a write lets overtake others: an entry must never be overtaken, a note at most
// once.
func (s *state) overtaken(r *rules, was *record, notes *list) {
	place := func(claim int) int8 {
		for i, k := range notes.k[:notes.n] {
			if k.claim() == claim {
				return int8(i)
			}
		}
		return maxNotes
	}
	for i := range r.n {
		c := &s.c[i]
		if c.at != wants && c.at != waits || !s.lives(r, i) {
			continue // no claim is kept waiting
		}
		before, after, noted := was.find(i), s.rec.find(i), place(i)
		if before >= 0 && was.e[before].session != r.session(i, c.sess) || before < 0 && noted < maxNotes && !notes.hasKey(keyOf(i, c.sess)) {
			continue // the entry is of an earlier session: its position is lost
		}
		for k, e := range s.rec.e[:s.rec.n] {
			first := was.find(int(e.claim))
			switch {
			case int(e.claim) == i || after >= 0 && k > after: // not ahead of it
			case before >= 0 && after >= 0 && (first < 0 || first > before):
				s.behind[i] = tooMany
			case r.peeks && !e.is(granted): // allowed: it was there before the note was taken in
			case before < 0 && first < 0 && noted < place(int(e.claim)):
				s.behind[i]++
			}
		}
	}
}

// tooMany is a count of overtaking that is always wrong.
const tooMany = 9

// server yields what happens without any process.
func (s *state) server(r *rules, step func(what string, who int, fault bool, change func(to *state))) {
	for i := range s.late {
		q := s.late[i]
		if q.kind == nothing {
			continue
		}
		what := "a late join"
		switch {
		case q.kind == call:
			what = "a late call"
		case q.ver == s.ver:
			what = "a late swap"
		}
		step(what+" is never done", int(q.who), false, func(to *state) {
			to.late[i] = request{}
			to.sortLate()
		})
		step(what+" is done", int(q.who), false, func(to *state) {
			to.late[i] = request{}
			to.sortLate()
			to.lands(r, &q)
		})
	}
	for k := range int8(detached + 1) {
		if s.lapsedAll(r)&^s.ended&bit(k) != 0 {
			step("the server ends the session", int(k/2), false, func(to *state) { to.ended |= bit(k) })
		}
	}
	if s.left.deletes > 0 && s.ver != vAbsent && s.rec.n == 0 && (s.passed.n+s.inbox.n == 0 || !r.has(purgeFirst)) && !(r.has(retain) && s.underWay()) {
		step("the record is deleted", operator, false, func(to *state) {
			to.left.deletes--
			to.rec, to.ver = record{}, vAbsent
			all := to.passed // the watermark is gone, so they count as new
			for _, k := range to.inbox.k[:to.inbox.n] {
				if !all.has(k) {
					all.add(k)
				}
			}
			to.inbox, to.passed = all, list{}
			to.tidy(r)
		})
	}
	if s.left.drops > 0 && s.notifications|s.news|s.reported != 0 {
		step("all notifications under way are lost", operator, true, func(to *state) {
			to.left.drops--
			to.notifications, to.news, to.reported = 0, 0, 0
		})
	}
	for _, k := range s.inbox.k[:s.inbox.n] {
		if r.leased && s.ended&bit(r.sessionOf(k)) != 0 {
			step("the server removes a note of a session that has ended", k.claim(), false, func(to *state) {
				to.inbox.keep(func(o note) bool { return o != k })
			})
		}
	}
	if s.passed.n > 0 {
		step("the notes that were taken in are purged", operator, false, func(to *state) { to.passed = list{} })
	}
}

// underWay reports whether a swap of the name is under way.
func (s *state) underWay() bool {
	return slices.ContainsFunc(s.late[:], func(q request) bool { return q.kind == swap })
}
