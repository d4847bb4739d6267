package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// A supervisor runs a command under a lease. When it is done, nothing of the command is left. It
// kills the command strictly before the lease expires. Only its one goroutine acts on the
// command: so the program does not exit, or reap, while it is killing.
type supervisor struct {
	leases  *holdfast.LeaseSet
	group   *group
	signals <-chan os.Signal
	where   string // the store, for people
	forgets bool   // the store keeps no reason of a break --now

	ends     os.Signal // the signal that asks the command to end
	preserve bool      // exit with the command's own code in place of 124

	giveUp   os.Signal // what the command gets when a waiter asks for the lock
	requests requests  // nil: requests are ignored

	ttl, grace time.Duration // grace: between TERM and KILL; ttl: 0 where leases have no deadline
	killOnLost bool          // no TERM when the lease is lost
	atMost     time.Duration // 0: no bound

	start    clock.Instant
	guarded  clock.Instant   // when guardBelow was called last; 0: not yet
	deadline clock.Instant   // of the lease, as last seen
	gives    time.Duration   // the most time that was seen left: what a renewal gives
	ending   bool            // the group has got TERM
	killAt   clock.Instant   // when it is killed; 0: not decided
	killed   clock.Instant   // when it was first killed
	dying    bool            // kill all that it has started: the lease is lost, or our front has died
	stuck    bool            // we have reported that it does not end
	asked    []clock.Instant // when INTs and TERMs came
	ended    *event          // of the command itself; nil: it runs
	code     int             // in place of the command's own; 0: none
}

// schedule returns when the command gets TERM and KILL unless the lease is renewed. All of it
// must be gone between KILL and the deadline. A lease that another's release granted is short
// until its first renewal, and so is its grace. TERM comes at most half of what a renewal gives
// before the deadline, to leave time for the next renewal: a store may give less than the TTL.
func (s *supervisor) schedule() (term, kill clock.Instant) {
	span := min(s.ttl, s.deadline.Sub(s.start))
	kill = s.deadline.Add(-max(200*time.Millisecond, min(time.Second, span/20)))
	if s.killOnLost {
		return kill, kill
	}
	return max(kill.Add(-min(s.grace, span/3)), s.deadline.Add(-s.gives/2)), kill //mutant:run-term-at
}

// supervise returns when no process of the command is left.
func (s *supervisor) supervise() {
	lost := s.leases.Lost()
	var over <-chan time.Time
	if s.atMost > 0 {
		over = time.After(s.atMost)
	}
	for !s.done() {
		wake := time.NewTimer(s.look())
		select {
		case <-s.group.changed:
			for _, e := range s.group.reap() {
				s.changed(e)
			}
		case <-lost:
			lost = nil
			if s.code != exitLost {
				tellLost("%s", whyLost(s.name(), context.Cause(s.leases.Context(context.Background())), s.forgets))
				s.end(exitLost)
			}
		case why := <-s.requests:
			tellAsked("%s: a waiter asks for the lock: %s; sending %s to the command", s.name(), why, signalName(s.giveUp)) //mutant:run-asked-again
			s.pass(s.giveUp)                                                                                                //mutant:run-gives-up
		case <-over:
			if !s.ending {
				tell("%s: the command ran past --at-most-for %v; stopping it", s.name(), s.atMost)
				s.end(exitTimeout)
			}
		case sig := <-s.signals:
			s.pass(sig)
		case <-wake.C:
		}
		wake.Stop()
	}
	disarmFront()
}

// changed handles an event of the command itself.
func (s *supervisor) changed(e event) {
	if !e.exited {
		s.group.stopped(e)
		return
	}
	s.ended = &e //mutant:run-command-ended
	if !s.group.gone() && !s.ending {
		s.end(0) // it has left processes behind
	}
}

// done reports whether nothing is left that must not outlive the lock: the group, and if dying,
// everything else that the command has started. If something cannot be killed, it is also true
// when the lease has expired.
func (s *supervisor) done() bool {
	switch {
	case s.ended != nil && s.group.gone(): //mutant:run-done-when-group-gone
		return !s.dying || s.group.none() //mutant:run-done-when-none-left
	case s.code == exitLost && s.stuck:
		return clock.Now() >= s.deadline
	}
	return false
}

// silence stands for the time to the deadline if leases have none: if we are stopped for longer,
// our front kills everything.
const silence = 10 * time.Second

// until returns the deadline of the leases on our clock, which counts suspended time. For leases
// without one it is always silence from now.
func until(l *holdfast.LeaseSet) clock.Instant {
	d := l.Deadline()
	if !d.IsZero() {
		return clock.Now().Add(time.Until(d))
	}
	if l.Valid() {
		return clock.Now().Add(silence) //mutant:run-silence
	}
	return clock.Now() - 1
}

// look does what is due by the clock, and returns how long to wait for the next look: at most a
// second, as no timer runs while the machine is suspended.
func (s *supervisor) look() time.Duration {
	d := until(s.leases)
	now := clock.Now() // after d, which is just past if the lease has ended
	if d > now {
		s.deadline = d // it moves with each renewal; when the lease has ended we keep the last
		s.gives = max(s.gives, d.Sub(now))
	}
	term, last := s.schedule()
	// The front kills when we should have and did not. It does so a little later, so as not to
	// overtake us on a busy machine.
	armFront(last.Add(s.deadline.Sub(last)/4).Sub(now), s.deadline.Sub(now), s.ttl == 0) //mutant:run-front-armed
	if s.group == nil {
		return 0
	}
	if !s.ending && now >= term { //mutant:run-term-due
		if now < s.deadline {
			since := time.Now().Add(s.deadline.Sub(now) - s.gives)
			tellLost("%s: the lock could not be renewed: %s has not answered since %s; stopping the command", s.name(), s.where, since.Format(time.TimeOnly))
		} else { // we were stopped, and nothing else has ended the command
			tellLost("%s: the lock expired %v ago, and another may hold it; killing the command", s.name(), now.Sub(s.deadline).Round(time.Millisecond))
		}
		s.end(exitLost)
	}
	kill := last
	if s.killAt != 0 {
		kill = min(last, s.killAt)
	}
	leaderless := s.ended != nil && s.group.gone() // but processes that left the group remain
	if now >= kill || leaderless {
		s.kill(now, now >= last)
	}
	switch {
	case s.dying && s.killed != 0:
		return time.Millisecond // the children of the killed become ours now
	case s.ended != nil || s.killed != 0:
		return 10 * time.Millisecond // until the rest of the group is gone
	case s.ending:
		return min(kill.Sub(now), time.Second)
	}
	if now.Sub(max(s.guarded, s.start)) >= cmp.Or(s.ttl, silence)/3 {
		s.guarded = now
		guardBelow()
		now = clock.Now()
	}
	return min(term.Sub(now), time.Second)
}

// pass sends a signal to the command. After KILL is due the command must not run again, not even
// to handle a signal: it is killed.
func (s *supervisor) pass(sig os.Signal) {
	now := clock.Now()
	_, last := s.schedule()
	switch {
	case sig == syscall.SIGKILL: // our front has died
		s.dying, s.ending, s.killAt = true, true, now
	case now >= last || s.killed != 0: //mutant:run-signal-after-deadline
		s.kill(now, now >= last)
	case s.insists(sig, now): //mutant:run-third-signal
		tell("third %v within 2 s: killing the command", sig)
		s.ending, s.killAt = true, now
	default:
		s.group.signal(sig)
	}
}

// insists reports whether the signal is the third INT or TERM within two
// seconds.
func (s *supervisor) insists(sig os.Signal, now clock.Instant) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGTERM {
		return false
	}
	s.asked = append(s.asked, now)
	n := len(s.asked)
	return n >= 3 && now.Sub(s.asked[n-3]) < 2*time.Second
}

// end asks the group to end; code replaces the command's own unless it is 0. exitLost overrides
// every other code, and then everything that the command has started is killed too.
func (s *supervisor) end(code int) {
	if code != 0 && s.code != exitLost {
		s.code = code
	}
	now := clock.Now()
	_, last := s.schedule()
	s.dying = s.dying || code == exitLost
	if now >= last || code == exitLost && s.killOnLost { // there is no time left for TERM //mutant:run-no-time-for-term
		s.ending, s.killAt = true, now
		return
	}
	if !s.ending {
		s.ending, s.killAt = true, now.Add(s.grace)
		s.group.terminate(s.ends) //mutant:run-ends-by-signal
	}
}

// kill kills the group, and is called until it is gone: a setuid process may be out of our reach
// for a while, and one in the kernel dies when its call returns.
func (s *supervisor) kill(now clock.Instant, timeOver bool) {
	s.ending = true
	if timeOver {
		s.code, s.dying = exitLost, true
	}
	if s.killed == 0 {
		s.killed = now
	}
	if s.dying {
		s.group.killAll()
	} else {
		s.group.kill()
	}
	if !s.stuck && now.Sub(s.killed) > 5*time.Second {
		s.stuck = true
		tell("%s: KILL has not ended all processes of the command yet; keeping the lock until it has", s.name())
	}
}

// result releases the lock and returns the exit code. If the outcome of the release is unknown,
// the library has logged that, and the code is the command's.
func (s *supervisor) result() int {
	released := make(chan error, 1)
	go func() { released <- s.leases.Release() }()
	var over <-chan time.Time
	if s.code == exitLost { // the store may still not answer; from the deadline on the name is free anyway
		over = time.After(s.deadline.Sub(clock.Now())) //mutant:run-ends-at-the-deadline
	}
	var err error
	select {
	case err = <-released:
	case <-over:
	}
	switch {
	case s.code == exitLost: // printed before
		return exitLost
	case errors.Is(err, holdfast.ErrLost):
		tellLost("%s", whyLost(s.name(), err, s.forgets))
		s.code = exitLost
		return exitLost
	case s.code == exitTimeout && s.preserve: //mutant:run-preserves-status
	case s.code != 0:
		return s.code
	}
	return s.ended.code()
}

// name returns the name; of several, the first that is not held any more, else all.
func (s *supervisor) name() string {
	names := s.leases.Names()
	for _, name := range names {
		if len(names) == 1 || !s.leases.Lease(name).Valid() {
			return printable(name)
		}
	}
	return strings.Join(names, ", ")
}

// whyLost describes the loss of a lock, with or without a command under it. forgets: the store
// keeps no reason of a break --now.
func whyLost(name string, err error, forgets bool) string {
	broken := (*store.LostError)(nil)
	if errors.As(err, &broken) {
		if broken.Reason == "" {
			return name + ": broken by an operator; the reason is unknown" //mutant:hold-speaks-of-no-command
		}
		return name + ": broken by an operator: " + broken.Reason
	}
	_, why, _ := strings.Cut(err.Error(), ": "+holdfast.ErrLost.Error())
	switch why = strings.TrimPrefix(why, ": "); {
	case why != "":
	case forgets:
		why = "the store no longer has this hold: it was broken with --now, or the store's data was deleted"
	default: // a break would give its reason
		why = "the store no longer has this hold: its data was deleted, or a fail-over lost it"
	}
	return name + ": lost: " + why
}
