package record

import (
	"context"
	"math"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, false)
	defer s.exit(m)
	sent := store.Now()
	r, err := s.read(ctx, c.Name)
	var v *view
	if err == nil {
		v, err = s.viewOf(ctx, c.Name, &r, func(v *view) { v.refuse(&c) })
	}
	if err != nil {
		return store.Answer{}, s.failed("look at", c.Name, err)
	}
	if err := s.isGone(m); err != nil {
		return store.Answer{}, s.whyGone(ctx, m, err)
	}
	a, err := v.q.Poll(v.now, c.Name, &c)
	if err != nil {
		return store.Answer{}, err
	}
	queue.DrawnBy(&a, v.drawn) //mutant:record-poll-tells-what-is-not-drawn
	unasked(&a)
	if m != nil {
		s.polled(m, &c, &a, v)
		s.remember(c.Name, &r, sent)
	}
	return a, nil
}

// refuse notes that a claim is refused: it matters whether the holders live. What is left for later is so for who waits.
func (v *view) refuse(c *store.Claim) {
	if v.refused = true; c.Try { //mutant:record-left-by-a-try
		v.lately = math.MaxInt64
	}
}

// polled notes what a poll has found of a claim that waits: that it has its position still, or that it was granted, which is the answer
// under the conditions of law 6. Only a token that was written is one: what fits, but was not written, is room.
func (s *Store) polled(m *localClaim, c *store.Claim, a *store.Answer, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.waits || m.unsure || m.moving != nil || m.sess == nil || v.in[m.id] != m.sess.ID { //mutant:record-poll-beside-an-ask
		return
	}
	switch st := m.sess.State(); {
	case st.Over || st.Failing:
	case !a.Granted && st.Suspect: // an ask has to put it into another session //mutant:record-poll-in-a-suspect-session
	case !a.Granted && (c.GiveUp == "" || m.uncalled != nil && len(m.uncalled) == 0): // else an ask has to call holders //mutant:record-poll-calls-nobody
		a.From = placedFrom(st, c.PositionTTL)
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL)) //mutant:record-poll-keeps-the-position
	case a.Token > 0: //mutant:record-poll-finds-room
		a.From, a.TTL = st.Renewed, min(c.TTL, st.Lasts) //mutant:record-poll-finds-the-grant
		s.granted(m, c, a, v.q.GiveUp() != "")
	}
}

// remember has the next write depend on what a poll has read, if nothing was done to the name since the poll was sent: a note that came later
// is not in it (law 4).
func (s *Store) remember(at string, r *Record, sent store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[at]; n != nil && !n.working && n.rested < sent { //mutant:record-poll-beside-a-note
		n.base = base{Record: *r, known: true, inbox: true, sent: sent} //mutant:record-poll-is-remembered
	}
}

// look is the record of a name as it is now; of all its entries it is known
// whether they live.
func (s *Store) look(ctx context.Context, at string) (*view, error) {
	r, err := s.read(ctx, at)
	if err != nil {
		return nil, err
	}
	return s.viewOf(ctx, at, &r, wholly)
}

// wholly has it known of all entries whether they live.
func wholly(v *view) { v.all = true }

// viewOf is what a record says; ask says of which entries it matters whether they live.
func (s *Store) viewOf(ctx context.Context, at string, r *Record, ask func(*view)) (*view, error) {
	a, err := s.apply(ctx, at, r, []*op{{apply: func(v *view) (queue.Change, error) {
		v.reads = true
		ask(v)
		return queue.Change{}, nil
	}}})
	if err != nil {
		return nil, err
	}
	return a.view, nil
}

// lately is since when those were granted, on the clock of the record, of whom who waits and polls need not ask whether they live, if the
// name goes from hand to hand: somebody has got it a moment ago, and others wait. It has a living holder then as a rule, and if not a later
// reading finds it. Else it is never, and so it is where the record is ahead of the server's clock.
func (s *Store) lately(v *view, waits bool) int64 {
	moment := (s.sessions.Trusted() / 4).Microseconds()
	since, passed := v.now.Clock-moment, false //mutant:record-lately-for-good
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		passed, waits = passed || e.Since > since, waits || !e.Granted
	}
	if passed && waits && s.traits.Clock && !s.traits.Notifies { //mutant:record-lately-alone
		if v.now.Clock-s.present().Clock <= moment { // else it was set back: a grant from before lies in the future //mutant:record-lately-by-a-clock-set-back
			return since
		}
	}
	return math.MaxInt64
}

// isLeft reports whether it is left for later whether a holder lives: it was granted a moment ago. One that is dead and has a lock
// delay is not to be granted.
func (v *view) isLeft(e *queue.Entry) bool {
	return e.LockDelay == 0 && //mutant:record-left-with-a-delay
		e.Since > v.lately //mutant:record-lately-all
}
