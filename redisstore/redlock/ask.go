package redlock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxRounds bounds how often an ask is repeated at once because it fits on enough nodes
	// but its number was too small or too large for them.
	maxRounds = 4
	// splitPlace is how long a try that is split among nodes keeps its position, while the
	// claims that came first win.
	splitPlace = time.Second
	// splitLook is when a claim that some nodes grant, and that no other hold blocks, asks
	// again even without a notification.
	splitLook = 20 * time.Millisecond
)

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.bounds().CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	need, err := s.quorum(c.Limit)
	if err != nil {
		return store.Answer{}, err
	}
	if err := s.ready(ctx, need); err != nil {
		return store.Answer{}, s.ended("ask for", c.Name, err)
	}
	cl := s.begin(&c)
	if cl.held {
		return s.askAgain(ctx, cl, &c)
	}
	placed := cl.place != 0
	cl.Try = cl.Try && !placed // a claim with a position keeps it //mutant:redlock-try-keeps-its-position
	a, err := s.acquire(ctx, cl, need)
	switch {
	case err == nil && (a.Granted || !cl.Try):
		return a, nil
	case err != nil && placed && !store.Definite(err):
		return a, err // the engine decides when the position is given up
	}
	// Leave nothing behind: grants of a minority would block other claims on those nodes.
	out := s.giveBack(cl) //mutant:redlock-late-grant-given-back
	if err == nil {
		s.givenBack(ctx, out, need)
	}
	s.claims.forget(c.ID)
	return a, err
}

func (s *Store) ended(what, name string, err error) error {
	return fmt.Errorf("%w: %s %q on %s: %w", store.ErrUnavailable, what, name, s.address, err)
}

// askAgain answers for a claim that is held already: it renews the hold and returns the
// same token.
func (s *Store) askAgain(ctx context.Context, cl *claim, c *store.Claim) (store.Answer, error) {
	from := store.Now()
	h := store.Hold{Name: c.Name, ID: c.ID, Token: cl.p, TTL: c.TTL}
	if r := s.renew(ctx, []store.Hold{h}, "")[0]; r.Err != nil { //mutant:redlock-ask-again-unshown
		return store.Answer{}, r.Err
	}
	return s.granted(cl, c.TTL, from), nil
}

func (s *Store) granted(cl *claim, ttl time.Duration, from store.Instant) store.Answer {
	n := cl.Tokens()
	return store.Answer{
		Granted: true, Token: cl.p, N: n, TTL: ttl, From: from, Weight: cl.Weight, Want: cl.Weight, Last: max(cl.newest, cl.p+int64(n)-1),
	}
}

// drift is how much the nodes' clocks may gain on the local clock within a TTL.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond } //mutant:redlock-drift

// acquire asks all nodes. It repeats the ask at once if the number must change, and repeats
// a try that is split among the nodes until one claim has won.
func (s *Store) acquire(ctx context.Context, cl *claim, need int) (store.Answer, error) {
	begun, split := store.Now(), false
	for round, again := 1, 0; ; round++ {
		s.propose(cl)
		sent := store.Now()
		place, mode := cl.PositionTTL, ""
		switch {
		case cl.Try && !split:
			mode = "t"
		case cl.Try:
			place = min(place, splitPlace)
		}
		if mode == "" {
			s.claims.mu.Lock() // the sweep in another claim's ask reads it
			cl.place = sent.Add(place)
			s.claims.mu.Unlock()
		}
		t := s.askAll(ctx, cl, place, mode, need)
		switch {
		case len(t.accepted) >= need:
			if store.Now() >= sent.Add(cl.TTL-drift(cl.TTL)) { //mutant:redlock-grant-within-ttl
				return store.Answer{}, s.tooLong(cl)
			}
			s.claims.mu.Lock()
			cl.held, cl.since, cl.deadline = true, store.Now(), sent.Add(cl.TTL-drift(cl.TTL))
			s.claims.mu.Unlock()
			return s.granted(cl, cl.TTL, sent), nil //mutant:redlock-lease-from
		case len(t.lost) > len(s.nodes)-need:
			return store.Answer{}, t.lossReason()
		case len(t.lost) > 0 && len(t.refused) == 0 && store.Now() >= begun.Add(cl.TTL-drift(cl.TTL)):
			// The grants of an earlier round have expired.
			return store.Answer{}, s.tooLong(cl)
		case t.mismatches > len(s.nodes)-need:
			return store.Answer{}, &store.MismatchError{Have: t.have, Want: cl.Limit}
		case ctx.Err() != nil:
			return store.Answer{}, s.ended("ask for", cl.Name, ctx.Err())
		case again < maxRounds && len(t.accepted)+t.low >= need, again < maxRounds && len(t.accepted)+t.high >= need:
			again++
			continue
		case again < maxRounds && s.reorder(cl, t): //mutant:redlock-order-corrected
			again++
			continue
		case t.onlyClocks(need): //mutant:redlock-only-clocks
			return store.Answer{}, s.indeterminate("ask for", cl.Name, len(t.accepted), need, append(t.errs, t.astray...))
		case t.answered() < need: //mutant:redlock-few-answers
			return store.Answer{}, s.indeterminate("ask for", cl.Name, t.answered(), need, t.errs)
		}
		if cl.Try && !t.decided(cl) && store.Now().Sub(begun) < min(s.timeout, cl.TTL/2) {
			// Several claims try at once and none has enough votes: each takes a position, and gives
			// up if it sees an earlier one.
			split = true
			if round > 2 {
				s.pause(ctx, min(time.Duration(round)*time.Millisecond/2, 5*time.Millisecond))
			}
			continue
		}
		return t.refusal(cl), nil
	}
}

func (s *Store) tooLong(cl *claim) error {
	return fmt.Errorf("%w: ask for %q on %s: the answers took longer than the TTL, %v", store.ErrUnavailable, cl.Name, s.address, cl.TTL)
}

// pause gives other claims time to give up.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// askAll asks all nodes with the claim's newest number. It returns when the outcome is
// decided, or will not be soon.
func (s *Store) askAll(ctx context.Context, cl *claim, place time.Duration, mode string, need int) *tally {
	args := s.askCall(cl, place, mode)
	out := make(chan reply, len(s.nodes))
	t := &tally{nodes: len(s.nodes), quorum: s.votesFor, asked: time.Now()}
	for _, n := range s.nodes {
		n.send(&job{n: n, ctx: ctx, claim: cl, id: cl.ID, sc: &s.scripts.ask, args: args, out: out})
	}
	late := s.collect(ctx, out, len(s.nodes), min(s.timeout, max(cl.TTL, time.Second)), func(r reply) bool {
		t.add(s, cl, r)
		return t.enough(need)
	}, func() bool { return t.answered() >= need }, s.slow) //mutant:redlock-answers-waited-for
	t.errs = append(t.errs, late...)
	return t
}

func (s *Store) askCall(cl *claim, place time.Duration, mode string) []any {
	why := cl.GiveUp
	if cl.Try || mode == "r" {
		why = ""
	}
	keep := store.TokenRetention + max(cl.TTL+cl.LockDelay, cl.MinHold) + time.Millisecond
	return s.scripts.ask.call(2, announced(cl.Announce, s.key(cl.Name), s.record(), pack(&cl.Claim, cl.order, cl.p), strconv.FormatInt(micros(cl.TTL), 10),
		strconv.FormatInt(micros(place), 10), strconv.FormatInt(keep.Milliseconds(), 10), openRecord(s.maxTTL), mode, why)...)
}

// collect passes on replies until enough returns true, all have come, or the time limit has
// passed. Once would returns true the rest is not needed: then it waits only a little
// longer, and not at all if without returns true for the missing nodes. would and without
// may be nil. It returns an error for each node that did not answer in time.
func (s *Store) collect(ctx context.Context, out <-chan reply, n int, limit time.Duration, enough func(reply) bool,
	would func() bool, without func(missing uint32) bool) (late []error) {
	var timer *time.Timer
	var fire <-chan time.Time
	straggling := false
	missing := uint32(1)<<len(s.nodes) - 1
	for left := n; left > 0; left-- {
		var r reply
		select {
		case r = <-out:
		default:
			if timer == nil {
				timer = time.NewTimer(limit)
				defer timer.Stop()
				fire = timer.C
			}
			select {
			case r = <-out:
			case <-fire:
				for _, n := range s.nodes {
					if missing&(1<<n.i) != 0 { //mutant:redlock-silent-node-named
						late = append(late, n.failed(errLate))
					}
				}
				return late
			case <-ctx.Done():
				return nil
			case <-s.ctx.Done():
				return nil
			}
		}
		missing &^= 1 << r.n.i
		if enough(r) {
			return nil
		}
		if !straggling && n == len(s.nodes) && left > 1 && would != nil && would() {
			if without != nil && without(missing) {
				return nil
			}
			straggling = true
			if timer != nil {
				timer.Stop()
			}
			timer = time.NewTimer(min(limit, s.straggle))
			defer timer.Stop()
			fire = timer.C
		}
	}
	return nil
}

// slow reports whether each of the missing nodes has recently been much slower than the
// fastest of the others.
func (s *Store) slow(missing uint32) bool {
	var best time.Duration
	for _, n := range s.nodes {
		if b := n.best(); missing&(1<<n.i) == 0 && b > 0 && (best == 0 || b < best) {
			best = b
		}
	}
	for _, n := range s.nodes {
		if missing&(1<<n.i) != 0 && n.best() < 4*best+5*time.Millisecond {
			return false
		}
	}
	return best > 0
}

// giveBack releases all entries of the claim on every node, in the background. A node that
// is down gets the release when it is back.
func (s *Store) giveBack(cl *claim) <-chan reply {
	return s.releaseAll(s.ctx, store.Hold{Name: cl.Name, ID: cl.ID, Announce: cl.Announce}, cl)
}

// givenBack waits until as many nodes have released it as the next claim needs, and a
// little longer for the others.
func (s *Store) givenBack(ctx context.Context, out <-chan reply, need int) {
	open := 0
	would := func() bool { return open >= need } //mutant:redlock-given-back-for-the-next
	s.collect(ctx, out, len(s.nodes), s.timeout, func(r reply) bool {
		if r.err == nil && r.n.grants() {
			open++
		}
		return false
	}, would, nil)
}
