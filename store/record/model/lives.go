package main

import "fmt"

// A life is how a session ends, as in package session.
type life uint8

const (
	byServer life = iota
	byServerClock
	byOwnClock
)

func (l life) String() string {
	return [...]string{"ended by the server", "by the server's clock", "by one's own clock"}[l]
}

// lives is the machine of one session. A owns it and renews it; B checks whether it has ended, and then skips it.
// This machine has time, counted in ticks. The state has only ages, which do not matter beyond the TTL, so the
// length of a history has no bound.
type lives struct {
	keep law
	life life
	ttl  int8 // of the session, in ticks
	// prompt: requests are answered within a tick, A renews when it should, and
	// lost replies are all that goes wrong.
	prompt bool
	lost   int8
}

// A flight is a renewal under way.
type flight struct {
	at  flightAt
	age int8 // since it was sent
}

type flightAt uint8

const (
	grounded flightAt = iota
	sent
	judged  // the server has found the session alive, and waits for its row
	renewed // the reply is on its way
	refused // the reply that it has ended is on its way
	given   // its reply is lost
)

// watching is what B is doing.
type watching uint8

const (
	resting watching = iota
	asking           // has sent a read
	asked            // the read was done, the reply is on its way
	closing          // has sent the request that makes the end final
	heard            // the session has ended, the reply is on its way
	passed           // skipped: another claim may be granted
)

type session struct {
	// What A knows.
	age      int8 // of its last answered renewal, since that was sent
	reported bool // the server has returned that it has ended
	dead     bool
	out      [2]flight
	lost     int8 // replies that may still be lost

	// What the server has.
	record int8 // the age of the last renewal that was done
	closed bool

	// What B knows.
	b     watching
	asked int8 // the age of its question
	over  bool // the answer was that the session has ended
	// With byOwnClock: the stamp that it has seen, and the one that it reads now.
	seen   bool // it has seen one
	since  int8 // how long ago that was
	still  bool // that stamp is still the current one
	equal  bool // the stamp that it reads now is the same
	latest bool // the stamp that it reads now is still the current one
}

func (m lives) has(l law) bool { return m.keep&l != 0 }

func (m lives) start() session { return session{lost: m.lost} }

// counts reports whether A believes that the session is alive.
func (m lives) counts(s *session) bool { return s.age < m.ttl && !s.reported && !s.dead }

func (m lives) wrong(s session) string {
	switch {
	case s.b == passed && m.counts(&s):
		return "PASSED OVER ALIVE"
	case m.prompt && !m.counts(&s):
		return "LOST WITHOUT NEED"
	}
	return ""
}

func (m lives) rests(s session) bool { return m.prompt || s.b == passed }
func (m lives) stuck() string        { return "A DEAD SESSION STAYS" }
func (m lives) who(i int) string     { return [...]string{"A", "B", ""}[i] }

func (m lives) text(s session) string {
	out := fmt.Sprintf("A's %d old", s.age)
	if !m.counts(&s) {
		out = "A has none"
	}
	if out += fmt.Sprintf("; the server's %d old", s.record); s.closed {
		out += ", ended"
	}
	return out
}

func (m lives) next(s session, yield func(what string, who int, fault bool, to session)) {
	step := func(what string, who int, fault bool, change func(to *session)) {
		to := s
		change(&to)
		if !m.counts(&to) && m.prompt {
			to.out = [2]flight{}
		}
		yield(what, who, fault, to)
	}
	if !m.prompt || !m.due(&s) {
		step("a tick", 2, false, func(to *session) {
			for _, age := range []*int8{&to.age, &to.record, &to.since, &to.asked, &to.out[0].age, &to.out[1].age} {
				*age = min(*age+1, m.ttl)
			}
		})
	}
	m.owner(&s, step)
	m.renewals(&s, step)
	if m.life == byServer && s.record >= m.ttl && !s.closed {
		step("the server ends the session", 2, false, func(to *session) { to.closed = true })
	}
	if !m.prompt {
		m.watcher(&s, step)
	}
}

type sessionStep = func(what string, who int, fault bool, change func(to *session))

// due reports whether something should happen before the next tick.
func (m lives) due(s *session) bool {
	for _, f := range s.out {
		if f.at != grounded && f.at != given && f.age >= 1 {
			return true
		}
	}
	return m.counts(s) && m.renewsNow(s)
}

// renewsNow reports whether A renews: a third of the TTL after the last answered renewal, and again a sixth after an
// unanswered one.
func (m lives) renewsNow(s *session) bool {
	last, free := m.ttl, false
	for _, f := range s.out {
		if f.at == grounded {
			free = true
			continue
		}
		last = min(last, f.age)
	}
	wait := m.ttl / 6
	if !m.has(renewsAgain) {
		wait = m.ttl // it waits for the reply as long as the session lasts
	}
	return free && s.age >= m.ttl/3 && last >= wait
}

func (m lives) owner(s *session, step sessionStep) {
	if m.counts(s) && !m.prompt {
		step("is killed", 0, true, func(to *session) { to.dead = true })
	}
	if m.counts(s) && (!m.prompt || m.renewsNow(s)) {
		for i := range s.out {
			if s.out[i].at == grounded {
				step("sends a renewal", 0, true, func(to *session) { to.out[i] = flight{at: sent} })
				break
			}
		}
	}
}

// renewals has the next steps of the renewals under way.
func (m lives) renewals(s *session, step sessionStep) {
	for i, f := range s.out {
		switch f.at {
		case sent:
			step("a renewal comes to the server", 0, false, func(to *session) {
				if to.out[i].at = judged; s.closed && m.has(renewRefused) || m.life == byServerClock && s.record >= m.ttl {
					to.out[i].at = refused
				}
			})
			if !m.prompt {
				step("a renewal is lost", 0, false, func(to *session) { to.out[i] = flight{} })
			}
		case judged:
			step("the renewal is done", 0, false, func(to *session) {
				if s.closed && m.has(renewRefused) {
					to.out[i].at = refused
					return
				}
				to.record, to.still, to.latest, to.out[i].at = 0, false, false, renewed
			})
		case renewed, refused:
			step("the reply to a renewal comes", 0, false, func(to *session) {
				if to.out[i] = (flight{}); f.at == refused {
					to.reported = true
				} else if to.age = min(to.age, f.age); !m.has(fromSending) {
					to.age = 0
				}
			})
			if s.lost > 0 || !m.prompt {
				step("the reply is lost", 0, true, func(to *session) {
					if to.out[i] = (flight{}); m.prompt {
						to.lost--
						to.out[i] = flight{given, f.age}
					}
				})
			}
		case given: // A waits for it
			if f.age >= m.ttl || m.has(renewsAgain) && f.age >= m.ttl/6 {
				step("gives a renewal up", 0, false, func(to *session) { to.out[i] = flight{} })
			}
		}
	}
}

// watcher has the steps of B.
func (m lives) watcher(s *session, step sessionStep) {
	switch s.b {
	case resting:
		step("asks whether the session lives", 1, false, func(to *session) { to.b, to.asked = asking, 0 })
	case asking:
		step("the question comes to the server", 1, false, func(to *session) {
			expired := m.life == byServerClock || m.life == byServer && !m.has(finalEnd)
			to.over = s.closed || expired && s.record >= m.ttl
			if to.b = asked; to.over && m.has(finalEnd) {
				to.closed = true // a conditional write, where the server does not end it by itself
			}
			to.equal, to.latest = s.seen && s.still, m.life == byOwnClock
		})
	case asked:
		step("is answered", 1, false, func(to *session) {
			to.b, to.over, to.equal, to.latest = resting, false, false, false
			switch {
			case s.over:
				to.b = passed
				return
			case m.life != byOwnClock:
				to.asked = 0
				return
			case !s.equal:
				if to.seen, to.since, to.still = true, 0, s.latest; !m.has(sinceAnswer) {
					to.since = s.asked
				}
			}
			if to.asked = 0; to.since >= m.ttl && m.has(finalEnd) {
				to.b = closing
			} else if to.since >= m.ttl {
				to.b = passed
			}
		})
	case closing:
		step("the closing comes to the server", 1, false, func(to *session) {
			if to.b = resting; s.still || s.closed || !m.has(closeSame) {
				to.b, to.closed = heard, true
			}
		})
	case heard:
		step("is answered that it has ended", 1, false, func(to *session) { to.b = passed })
	}
}

func (m lives) without(l law) run {
	m.keep &^= l
	return m
}

func (m lives) explore() result { return explore(m, bound) }

func (m lives) String() string {
	if m.prompt {
		return fmt.Sprintf("%v, requests take a tick, %d replies are lost", m.life, m.lost)
	}
	return m.life.String()
}
