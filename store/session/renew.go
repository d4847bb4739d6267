package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The schedule of renewals, for a session that lasts d: one is sent after d/3 and has
// d/6 for its answer, so that three fit before the end: a lost reply, or two, cost
// no session.
const (
	renewPart  = 3
	answerPart = 6
)

// patience is how long a renewal waits for its answer before the next is sent:
// longer on a slow link, but never so long that there is no time for another.
func patience(lasts, trip time.Duration) time.Duration {
	return min(max(lasts/answerPart, 4*trip), lasts/4, longest) //mutant:renewal-leaves-time-for-another
}

// Renew sends a renewal, or joins the one under way.
func (sess *Session) Renew() *Flight {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renew(sess)
}

// Fresh returns a renewal to wait for, or nil if the session was renewed a moment ago, or if its last renewal
// failed: then the next may fail too, and a caller that waited for it could learn too late that the session's
// holds still last.
func (sess *Session) Fresh() *Flight {
	s := sess.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.failed > 0 || sess.flight == nil && store.Now() < sess.renewed.Add(sess.lasts/10) { //mutant:session-waits-for-what-fails
		return nil
	}
	return s.renew(sess)
}

// RenewAll renews the sessions by requests that are sent from now on, so their answers include everything done
// to a session before. It does not wait for a session that cannot be renewed while others can: its holds have to
// leave it, and the time is needed for that.
func RenewAll(ctx context.Context, all map[*Session]bool) {
	var sessions []*Session
	for sess := range all {
		sess.set.mu.Lock()
		joined, waits := sess.flight, !sess.suspect || sess.failed == 0 //mutant:session-waits-for-what-cannot-be-renewed
		sess.set.mu.Unlock()
		if waits {
			sessions = append(sessions, sess)
		}
		if joined == nil || !waits {
			continue
		}
		select { // it was sent earlier
		case <-joined.done:
		case <-ctx.Done():
			return
		}
	}
	flights := make([]*Flight, 0, len(sessions))
	for _, sess := range sessions {
		flights = append(flights, sess.Renew())
	}
	for _, f := range flights {
		select {
		case <-f.done:
		case <-ctx.Done():
			return
		}
	}
}

// renew begins to renew the session, or joins a renewal under way. Set.mu is
// held.
func (s *Set) renew(sess *Session) *Flight {
	if sess.flight != nil {
		return sess.flight
	}
	f := &Flight{done: make(chan struct{})}
	if s.over(sess) || sess.ending {
		f.err = store.ErrLost
		close(f.done)
		return f
	}
	sess.flight = f
	wait, first := patience(sess.lasts, s.trip), sess.awaits()
	s.tasks.Go(func() {
		if first != nil {
			select {
			case <-first:
			case <-time.After(min(wait/2, sess.lasts/12)):
			case <-s.ctx.Done():
			}
		}
		ctx, cancel := context.WithTimeout(s.ctx, wait)
		defer cancel()
		s.mu.Lock()
		spareAnswered := sess.spare != nil && sess.failed > 0 && sess.spare.heard >= sess.silent //mutant:session-spare-heard-before
		sent := store.Now()
		s.mu.Unlock()
		calls, err := s.b.Renew(ctx, sess.ID)
		heard := store.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.flight = nil
		switch f.err = err; {
		case err == nil: //mutant:session-renewed-if-answered
			// It counts from the sending: the server began its TTL no earlier (law 1).
			sess.renewed, sess.calls, sess.failed = max(sess.renewed, sent), max(sess.calls, calls), 0 //mutant:session-counts-from-answer
			sess.heard = heard
			s.trip += (heard.Sub(sent) - s.trip) / 4
			s.met()
			s.over(sess)
		case errors.Is(err, store.ErrLost):
			s.died(sess) //mutant:session-outlives-its-end
		default:
			if sess.failed++; sess.failed == 1 {
				sess.silent = sent
			}
			s.doubt(sess, spareAnswered, heard.Sub(sess.silent) > wait*3/2) //mutant:session-doubted-in-a-moment
			pause := min(sess.lasts/24, (10*time.Millisecond)<<min(sess.failed, 6))
			sess.again = heard.Add(pause/2 + rand.N(pause/2+1))
		}
		close(f.done)
		s.poke()
	})
	return f
}

// leastDoubted is the shortest duration of a session that can become suspect. A busy machine often delays
// the renewal of a shorter one by a sixth of it, and beginning other sessions would make it busier.
const leastDoubted = time.Second

// doubt decides what an unanswered renewal means. Either the server is away, or this session alone cannot be
// written: its row is locked, or its own connection is dead. A spare session shows which. If the spare was
// answered after this session fell silent (spareAnswered: it was known before the renewal was sent), this session is
// suspect, and its holds go into the spare while they last (law 15). It is not suspect before as much time has
// passed as two renewals wait, however many have failed: by then a cut connection has been replaced. Set.mu is
// held.
func (s *Set) doubt(sess *Session, spareAnswered, long bool) {
	switch spare := sess.spare; {
	case sess.suspect || sess.ending || sess.lasts < leastDoubted || s.over(sess): //mutant:session-doubted-though-short
	case sess.claims == 0 && s.present[sess.TTL] != sess: // the session is not needed; but the present one is, by entries on their way into it //mutant:session-doubted-while-it-keeps-something
	case spare == nil || spare.err != nil || spare.heard > 0 && (spare.suspect || spare.ending || s.over(spare)):
		sess.spare = s.another(sess.TTL)
	case spare.heard == 0: // it is beginning
	case spare.heard < sess.silent: //mutant:session-spare-is-asked-again
		s.renew(spare)
	case spareAnswered && long: //mutant:session-doubted-at-once
		s.suspects(sess) //mutant:session-that-cannot-be-renewed
		s.present[sess.TTL] = spare
		if spare.used = store.Now(); sess.claims == 0 { //mutant:session-unused-for-good
			spare.used = sess.used
		}
	}
}

// awaits returns what the second renewal after a failed one waits for, briefly: the answer of the spare
// session, as only a renewal sent after that answer proves anything. It is nil if there is nothing to wait
// for. Set.mu is held.
func (sess *Session) awaits() <-chan struct{} {
	spare := sess.spare
	switch {
	case sess.failed != 1 || sess.suspect || spare == nil: //mutant:session-renewed-before-the-spare
	case spare.flight != nil:
		return spare.flight.done
	case spare.heard == 0:
		return spare.ready
	}
	return nil
}

// Tend calls due until ctx ends: at once, then at the time that due returned, and when wake fires, but at most
// once per pause.
func Tend(ctx context.Context, wake <-chan struct{}, pause time.Duration, due func(now store.Instant) (next store.Instant)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
		next := due(store.Now())
		timer.Reset(max(next.Sub(store.Now()), pause))
	}
}

// unused is how many TTLs a session that keeps nothing is renewed for.
const unused = 2

// due renews the sessions, and ends those that have expired by our clock or no longer keep anything. A timer stops
// while the machine is suspended, so due is called again within a second.
func (s *Set) due(now store.Instant) (next store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(time.Second)
	at := func(when store.Instant) bool {
		if when > now {
			next = min(next, when)
		}
		return when <= now
	}
	for _, sess := range s.own {
		idle := sess.claims == 0 && at(sess.used.Add(unused*sess.TTL)) //mutant:session-keeps-nothing
		switch {
		case sess.ending || sess.flight != nil:
		case s.over(sess) || idle:
			if at(sess.again) { //mutant:session-ended-again-without-a-pause
				s.finish(sess)
			}
		default:
			at(sess.end())
			if at(max(sess.renewed.Add(sess.lasts/renewPart), sess.again)) { //mutant:session-renewed-in-time
				s.renew(sess)
			}
		}
	}
	s.others.forget(now)
	return next
}

// finish ends a session of this process on the server, which may still consider it
// alive. Set.mu is held.
func (s *Set) finish(sess *Session) {
	sess.ending, sess.dead = true, true
	if s.present[sess.TTL] == sess {
		delete(s.present, sess.TTL)
	}
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, longest)
		defer cancel()
		err := s.b.End(ctx, sess.ID)
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := store.Now(); err == nil || now > sess.end().Add(2*sess.TTL) {
			delete(s.own, sess.ID)
			s.others.end(sess.ID, now, now)
		} else {
			sess.ending, sess.again = false, now.Add(time.Second)
		}
		s.poke()
	})
}
