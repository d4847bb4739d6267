package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A supervisor looks after a command that runs under a lease. Nothing of the
// command is left when it is done, and it kills the command strictly before the
// lease runs out.
type supervisor struct {
	lease   *holdfast.Lease
	group   *group
	signals <-chan os.Signal
	stops   <-chan os.Signal

	ttl, grace time.Duration // grace: between TERM and KILL
	killOnLost bool          // no TERM when the lease is lost
	atMost     time.Duration // 0: no bound

	start    clock.Instant
	deadline clock.Instant // of the lease, as last seen
	ending   bool          // the group was told to end
	killAt   clock.Instant // when it is killed; 0: not decided
	killed   clock.Instant // when it was first killed
	stuck    bool          // told that it does not go
	ended    *event        // of the command itself; nil: it runs
	code     int           // in place of the command's own; 0: none
}

// schedule is when the command is to get TERM and KILL unless the lease is
// renewed. Between KILL and the deadline all of it has to be gone. A lease that
// was granted by another's release is short until its first renewal, and so is
// the grace then.
func (s *supervisor) schedule() (term, kill clock.Instant) {
	span := min(s.ttl, s.deadline.Sub(s.start))
	kill = s.deadline.Add(-max(200*time.Millisecond, min(time.Second, span/20)))
	if s.killOnLost {
		return kill, kill
	}
	return kill.Add(-min(s.grace, span/3)), kill
}

// supervise returns when no process of the command is left.
func (s *supervisor) supervise() {
	lost := s.lease.Lost()
	var over <-chan time.Time
	if s.atMost > 0 {
		over = time.After(s.atMost)
	}
	s.start, s.deadline = clock.Now(), until(s.lease)
	for s.ended == nil || !s.group.gone() {
		wake := time.NewTimer(s.look())
		select {
		case e := <-s.group.events:
			if !e.exited {
				s.group.stopped(e, tell)
				break
			}
			s.ended = &e
			if !s.group.gone() && !s.ending {
				s.end(0) // it has left processes behind
			}
		case <-lost:
			lost = nil
			if s.code != exitLost {
				tellLost("%v", context.Cause(s.lease.Context(context.Background())))
				s.end(exitLost)
			}
		case <-over:
			if !s.ending {
				tell("the command ran past --at-most-for %v and is ended", s.atMost)
				s.end(exitTimeout)
			}
		case sig := <-s.signals:
			s.group.signal(sig)
		case <-s.stops:
			tell("not stopped: the lock would lapse while the command runs on")
		case <-wake.C:
			s.group.handOver()
		}
		wake.Stop()
	}
	s.group.finish(s.ended.signalled())
}

// until is the deadline of the lease on our clock, which counts the time that
// the machine was suspended.
func until(l *holdfast.Lease) clock.Instant { return clock.Now().Add(time.Until(l.Deadline())) }

// look does what is due by the clock, and returns when to look again: at least
// each second, as no timer runs while the machine is suspended.
func (s *supervisor) look() time.Duration {
	d := until(s.lease)
	now := clock.Now() // after d, which of a lease that is over is the instant just gone
	if d > now {
		s.deadline = d // it moves with each renewal; of a lease that is over we keep the last
	}
	term, last := s.schedule()
	if !s.ending && now >= term {
		tellLost("the lock could not be renewed: the command is ended before it runs out")
		s.end(exitLost)
	}
	kill := last
	if s.killAt != 0 {
		kill = min(last, s.killAt)
	}
	if now >= kill {
		s.kill(now, now >= last)
	}
	switch {
	case s.ended != nil || s.killed != 0:
		return 10 * time.Millisecond // until the rest of the group is gone
	case s.ending:
		return min(kill.Sub(now), time.Second)
	}
	return min(term.Sub(now), time.Second)
}

// end asks the group to end; code replaces the command's own unless it is 0.
// That the lease was lost outweighs all else.
func (s *supervisor) end(code int) {
	if code != 0 && s.code != exitLost {
		s.code = code
	}
	now := clock.Now()
	_, last := s.schedule()
	if code == exitLost && (s.killOnLost || now >= last) { // there is no time left for TERM
		s.ending, s.killAt = true, now
		return
	}
	if !s.ending {
		s.ending, s.killAt = true, now.Add(s.grace)
		s.group.terminate()
	}
}

// kill kills the group, again and again until it is gone: a setuid process may
// be out of our reach for a while, and one in the kernel goes when its call
// returns.
func (s *supervisor) kill(now clock.Instant, timeOver bool) {
	s.ending = true
	if timeOver {
		s.code = exitLost
	}
	if s.killed == 0 {
		s.killed = now
	}
	s.group.kill()
	if !s.stuck && now.Sub(s.killed) > 5*time.Second {
		s.stuck = true
		tell("processes of the command do not end though they were killed; the lock is not given back before they do")
	}
}

// result gives the lock back and is the exit code. If it is not clear whether it
// was given back, the engine has warned of that, and the code is the command's.
func (s *supervisor) result() int {
	err := s.lease.Release()
	switch {
	case s.code == exitLost: // told before
		return exitLost
	case errors.Is(err, holdfast.ErrLost):
		tellLost("%v", err)
		return exitLost
	case s.code != 0:
		return s.code
	}
	return s.ended.code()
}
