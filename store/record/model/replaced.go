package main

import "fmt"

// replaced is the machine of a server that is replaced by its replica, which receives updates only now and then. A
// and B each want one name, and also keep something else, so that a process ends only a session that it has left. A
// process also leaves a session that it cannot renew while it can renew another. There is no time. A hold is renewed
// by the renewal of its session.
type replaced struct {
	keep   law
	left   int8 // how often it can still be replaced
	locked int8 // how often a session cannot be renewed
}

const (
	mostBegun = 6 // sessions of a process
	noSession = int8(-1)
)

// data is what a server has.
type data struct {
	holder  int8 // of the name: the number of a process plus 1; 0: none
	session int8 // of that process
	lives   [2]uint8
}

// isFree reports whether the name can be granted.
func (d *data) isFree() bool { return d.holder == 0 || d.lives[d.holder-1]&bit(d.session) == 0 }

func (d *data) has(i int, session int8) bool { return d.holder == int8(i)+1 && d.session == session }

type succession struct {
	server        int8 // the present server, counted from 1
	left, locked  int8
	data, replica data
	p             [2]member
}

// A member is a process, and what it knows.
type member struct {
	at      place // wants, holds or done
	sess    int8  // of what it holds
	present int8  // the session that new things go into
	begun   int8  // how many sessions it has begun
	suspect uint8
	over    uint8
	knows   int8 // the server that answered last; 0: none
	proved  bool // the present server has confirmed the hold

	renews   int8 // the session whose renewal is under way
	answered int8 // the server that answered it; 0: it has not arrived
	alive    bool // the answer: the session is alive
}

func (m replaced) has(l law) bool { return m.keep&l != 0 }

func (m replaced) start() (s succession) {
	s.server, s.left, s.locked = 1, m.left, m.locked
	for i := range s.p {
		s.p[i] = member{at: wants, sess: noSession, present: noSession, renews: noSession}
	}
	return s
}

func (m replaced) wrong(s succession) string {
	for i := range s.p {
		if p := &s.p[i]; p.at == holds && p.proved && !s.data.has(i, p.sess) {
			return "A HOLD IS RENEWED THAT IS NOT THERE"
		}
	}
	return ""
}

func (m replaced) rests(s succession) bool {
	return s.p[0].at == done && s.p[1].at == done && s.data.isFree()
}

func (m replaced) stuck() string    { return "THE NAME STAYS TAKEN" }
func (m replaced) who(i int) string { return [...]string{"A", "B", ""}[i] }

func (m replaced) text(s succession) string {
	out := fmt.Sprintf("server %d: free", s.server)
	if s.data.holder > 0 {
		out = fmt.Sprintf("server %d: %s%d", s.server, m.who(int(s.data.holder-1)), s.data.session+1)
	}
	for i, p := range s.p {
		if p.at == holds {
			out += fmt.Sprintf("; inside %s%d", m.who(i), p.sess+1)
		}
	}
	return out
}

func (m replaced) next(s succession, yield func(what string, who int, fault bool, to succession)) {
	step := func(what string, who int, fault bool, change func(to *succession)) {
		to := s
		change(&to)
		yield(what, who, fault, to)
	}
	if s.left > 0 {
		step("the replica receives", 2, true, func(to *succession) { to.replica = s.data })
		step("the replica takes its place", 2, true, func(to *succession) {
			to.data, to.server, to.left = s.replica, s.server+1, s.left-1
			to.p[0].proved, to.p[1].proved = false, false
		})
	}
	for i := range s.p {
		m.member(&s, i, step)
		m.renewal(&s, i, step)
	}
}

type successionStep = func(what string, who int, fault bool, change func(to *succession))

// member has the steps of a process with the name and with its sessions.
func (m replaced) member(s *succession, i int, step successionStep) {
	p := &s.p[i]
	if p.present == noSession && p.begun < mostBegun {
		step("begins a session", i, false, func(to *succession) {
			q := &to.p[i]
			q.present, q.begun = p.begun, p.begun+1
			if to.data.lives[i] |= bit(q.present); m.has(beginTells) {
				m.met(q, s.server)
			}
		})
	}
	if p.at == wants && p.present != noSession && s.data.isFree() {
		step("is granted the name", i, false, func(to *succession) {
			to.data.holder, to.data.session = int8(i)+1, p.present
			to.p[i].at, to.p[i].sess = holds, p.present
		})
	}
	if p.at == holds {
		step("gives it back", i, false, func(to *succession) {
			if s.data.has(i, p.sess) {
				to.data.holder, to.data.session = 0, 0
			}
			m.leaves(&to.p[i])
		})
	}
	if p.at == holds && p.suspect&bit(p.sess) != 0 && p.present != noSession && p.present != p.sess && m.has(suspectMoves) {
		step("writes it into the present session", i, false, func(to *succession) {
			if !s.data.has(i, p.sess) {
				m.leaves(&to.p[i]) // the hold is lost
				return
			}
			to.data.session, to.p[i].sess, to.p[i].proved = p.present, p.present, false
		})
	}
	if s.locked > 0 && p.present != noSession {
		step("cannot renew its session, though another", i, true, func(to *succession) {
			q := &to.p[i]
			to.locked, q.suspect = s.locked-1, p.suspect|bit(p.present)
			if m.has(suspectTakesNoMore) {
				q.present = noSession
			}
		})
	}
	if left := s.data.lives[i] & p.over; left != 0 {
		step("what it renews no more runs out", i, false, func(to *succession) { to.data.lives[i] &^= left })
	}
	for k := range p.begun {
		if p.suspect&^p.over&bit(k) != 0 && k != p.present && k != p.sess && m.has(suspectEnds) {
			step("ends the session that it has left", i, false, func(to *succession) {
				to.data.lives[i] &^= bit(k)
				to.p[i].over |= bit(k)
			})
		}
	}
}

func (m replaced) leaves(p *member) { p.at, p.sess, p.proved = done, noSession, false }

// renewal has the steps of the renewal of a session: it reaches the server, and its answer may arrive after the
// server was replaced.
func (m replaced) renewal(s *succession, i int, step successionStep) {
	p := &s.p[i]
	switch {
	case p.renews == noSession:
		for k := range p.begun {
			if p.over&bit(k) == 0 && (k == p.present || k == p.sess) {
				step(fmt.Sprintf("sends a renewal of session %d", k+1), i, false, func(to *succession) { to.p[i].renews = k })
			}
		}
	case p.answered == 0:
		step("the renewal comes to the server", i, false, func(to *succession) {
			to.p[i].answered, to.p[i].alive = s.server, s.data.lives[i]&bit(p.renews) != 0
		})
	default:
		step("hears the answer", i, false, func(to *succession) {
			q := &to.p[i]
			q.renews, q.answered, q.alive = noSession, 0, false
			if !p.alive {
				m.ends(q, p.renews)
				return
			}
			if m.met(q, p.answered); q.at == holds && q.sess == p.renews && q.over&bit(q.sess) == 0 && (q.suspect&bit(q.sess) == 0 || !m.has(suspectMoves)) {
				q.proved = q.proved || p.answered == s.server
			}
		})
	}
}

// met is how a process handles an answer by a server.
func (m replaced) met(p *member, server int8) {
	if p.knows != 0 && p.knows != server {
		for k := range p.begun {
			p.suspect |= bit(k)
		}
		if m.has(suspectTakesNoMore) {
			p.present = noSession
		}
	}
	p.knows = server
}

// ends handles the answer that a session of p has ended.
func (m replaced) ends(p *member, k int8) {
	p.over |= bit(k)
	if p.present == k {
		p.present = noSession
	}
	if p.at == holds && p.sess == k {
		m.leaves(p)
	}
}

func (m replaced) without(l law) run {
	m.keep &^= l
	return m
}

func (m replaced) explore() result { return explore(m, bound) }
func (m replaced) String() string {
	return fmt.Sprintf("another server takes the place %d times, and a session is locked %d times", m.left, m.locked)
}
