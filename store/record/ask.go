package record

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// errNeedsShort says that a claim has to wait, and has no session to wait in.
var errNeedsShort = errors.New("no session to wait in has begun")

// An asking is what one run of an ask has set.
type asking struct {
	a     store.Answer
	in    session.ID // that keeps the entry
	there bool       // there is an entry
	owner string     // of the entry
	asked bool       // a waiter asks the holders to give up
}

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, true)
	defer s.exit(m)
	if err := s.isGone(m); err != nil {
		return store.Answer{}, s.whyGone(ctx, m, err)
	}
	if a, ok := s.fromNotification(m, &c); ok {
		return a, nil
	}
	if c.GiveUp == "" {
		m.uncalled = nil
	}
	a, err := s.ask(ctx, m, &c)
	if err != nil {
		return store.Answer{}, s.failed("ask for", c.Name, err)
	}
	if c.GiveUp != "" {
		s.askHolders(ctx, m, &c)
	}
	return a, nil
}

func (s *Store) ask(ctx context.Context, m *localClaim, c *store.Claim) (store.Answer, error) {
	long, err := s.sessions.Present(ctx, c.TTL)
	if err != nil {
		s.unsent(m)
		return store.Answer{}, err
	}
	short := s.sessions.Begun(s.placeTTL(c))
	for {
		s.mu.Lock()
		if m.sess == nil {
			m.into(long)
		}
		s.mu.Unlock()
		if a, err := s.askIn(ctx, m, c, long, short); err != errNeedsShort {
			return a, err
		}
		if short, err = s.sessions.Present(ctx, s.placeTTL(c)); err != nil {
			s.unsent(m)
			return store.Answer{}, err
		}
	}
}

// askIn asks once. An entry that is new goes into the long session if it is granted, and
// into the short one if it waits. One that is there stays where it is: whatever was
// asked for before, in whichever session, is what the record says it is (law 1).
func (s *Store) askIn(ctx context.Context, m *localClaim, c *store.Claim, long, short *session.Session) (store.Answer, error) {
	s.mu.Lock()
	waits, again := m.waits, m.sent
	m.sent = true
	s.mu.Unlock()
	flight := long.Fresh()
	if waits && short != nil {
		flight = short.Fresh()
	}
	to, err := s.longer(ctx, m, long, short)
	if err != nil {
		return store.Answer{}, err
	}
	calls := map[session.ID]int64{long.ID: long.State().Calls}
	if short != nil {
		calls[short.ID] = short.State().Calls
	}
	got := &asking{}
	o := &op{short: short, asks: true, again: again}
	if !c.Try {
		o.claim = c
	}
	o.apply = func(v *view) (change queue.Change, err error) {
		*got = asking{}
		got.a, change, err = v.q.Ask(v.now, c.Name, c)
		e := v.find(c.ID)
		switch crowd := s.records.reportsEnd && len(v.q.Entries) > fewCome; {
		case got.a.Granted:
		case c.Try || !crowd:
			v.refuse(c)
		case v.stored[c.ID]:
			v.again = append(v.again, c.ID)
		}
		if err != nil || e == nil {
			return change, err
		}
		if s.traits.bySession() {
			v.wishes(c.ID, e)
		}
		in, known := v.in[c.ID]
		switch {
		case known && to != nil:
			in = to.ID
		case known:
		case e.Granted:
			in = long.ID
		case short == nil || !short.Use(): //mutant:record-session-ends-meanwhile
			gone, _ := v.q.Release(v.now, &store.Hold{Name: c.Name, ID: c.ID})
			change.Woken = append(change.Woken, gone.Woken...)
			return change, errNeedsShort
		default:
			in = short.ID
		}
		v.in[c.ID], got.in, got.there, got.owner = in, in, true, e.Owner
		got.asked = v.q.GiveUp() != ""
		return change, nil
	}
	err = s.records.do(ctx, c.Name, o)
	noted := err != nil && store.Definite(err) && o.noted
	// Who waits goes on until its own entry is in the record (law 9): whoever made room
	// may not have seen the note, and who comes later is not to overtake it.
	for tried := 0; err == nil && o.rests; tried++ {
		noted = true
		var in bool
		if in, err = s.awaitTakenIn(ctx, m, short, s.records.crowded(c.Name, tried, got.a.Waiting)); in {
			if got.in, got.there = short.ID, true; got.a.Granted {
				got.a = store.Answer{} // on what was not the newest
			}
			break
		}
		if err == nil {
			_, peeks := s.b.(Peeker)
			looks := peeks && (tried < looksFirst || rand.N(max(oneOf>>(tried-looksFirst), 1)) > 0)
			o = &op{short: short, asks: true, again: true, claim: o.claim, apply: o.apply, insists: !looks, looks: looks}
			err = s.records.do(ctx, c.Name, o)
		}
		if err != nil && !store.Definite(err) {
			s.records.settleLater(c.Name) //mutant:record-note-is-taken-in-later
		}
	}
	switch {
	case err == errNeedsShort:
		return store.Answer{}, err
	case errors.Is(err, store.ErrLost):
		broken := (*store.LostError)(nil)
		s.lost(m, err, errors.As(err, &broken))
		return store.Answer{}, err
	case err != nil && !store.Definite(err):
		s.mu.Lock()
		m.unsure, m.ends = true, max(m.ends, store.Now().Add(c.TTL)) //mutant:record-ask-unanswered
		s.mu.Unlock()
		return store.Answer{}, err
	case err != nil:
		s.refused(m, noted)
		return store.Answer{}, err
	case !got.there:
		s.nothing(m)
		return got.a, nil
	}
	return s.answer(ctx, m, c, got, calls, flight)
}

// looksFirst is how often who waits for its note to be taken in looks for itself in the record alone, before it
// reads the inbox and takes in all that is there.
const looksFirst = 2

// oneOf is of how many that have looked so often one reads the inbox, and the next time one of half as many: if the
// owner of the oldest note is dead somebody has to, and if all of a crowd did at once none would be answered.
const oneOf = 8

// awaitTakenIn waits for a notification that the note of a claim was taken in, for so long. That
// serves for a reading: an entry that was there stays until its owner takes it out, or its session ends.
func (s *Store) awaitTakenIn(ctx context.Context, m *localClaim, in *session.Session, patience time.Duration) (taken bool, err error) {
	rest := make(chan struct{})
	s.mu.Lock()
	m.into(in)
	m.rest = rest
	m.rested()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		m.rest = nil
		s.mu.Unlock()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-rest:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, contended(ctx)
	}
}

// answer is what an ask is told whose entry is in the record or the inbox: it counts from the last
// answered renewal of the session that keeps the entry (law 1).
func (s *Store) answer(
	ctx context.Context, m *localClaim, c *store.Claim, got *asking, calls map[session.ID]int64, flight *session.Flight,
) (store.Answer, error) {
	sess := s.sessions.Own(got.in) //mutant:record-grant-counts-from-another-session
	if sess == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		m.lose(store.ErrLost)
		return store.Answer{}, store.ErrLost
	}
	st := sess.Wait(ctx, flight)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.moving, m.unsure, m.owner = nil, false, got.owner //mutant:record-owner-of-the-entry
	m.into(sess)
	if m.check(); m.gone != nil {
		return store.Answer{}, store.ErrLost
	}
	m.calls = calls[sess.ID] // not known: its next renewal reads //mutant:record-called-while-it-asks
	a := got.a
	a.From = placedFrom(st, c.PositionTTL)
	unasked(&a)
	if m.waits = !a.Granted; m.waits {
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL))
	} else {
		a.From = st.Renewed
		a.TTL = min(c.TTL, st.Lasts) //mutant:record-grant-outlasts-its-session
		s.granted(m, c, &a, got.asked)
	}
	s.poke()
	return a, nil
}

// unasked takes from an answer the times that are not known, as nobody has asked whether the holders live.
func unasked(a *store.Answer) {
	const ever = time.Duration(unending) * time.Microsecond / 2
	if a.Until > ever {
		a.Until = 0
	}
	for i := range a.Holders {
		if h := &a.Holders[i]; h.Ends > ever { //mutant:record-times-of-the-unasked
			h.Expires, h.Ends = 0, 0
		}
	}
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, false)
	defer s.exit(m)
	sent := store.Now()
	r, err := s.records.read(ctx, c.Name)
	var v *view
	if err == nil {
		v, err = s.records.viewOf(ctx, c.Name, &r, func(v *view) { v.refuse(&c) })
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
		s.records.remember(c.Name, &r, sent)
	}
	return a, nil
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
