package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// errNeedsShort says that a claim has to wait and has no session to wait in.
var errNeedsShort = errors.New("no session to wait in has begun")

// Ask implements [store.Store]. The local state of the claim may answer it. Otherwise the claim gets a session and
// goes into the record, perhaps by way of the inbox. The result is noted for the claim.
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	s.lengthen(&c)
	began, heard, err := s.prepare(ctx)
	if err != nil {
		return store.Answer{}, s.failed("ask for", c.Name, err)
	}
	m := s.enter(c.Name, c.ID, true)
	defer s.exit(m)
	a, known, err := s.known(m, &c)
	if err != nil {
		return store.Answer{}, s.whyGone(ctx, m, err)
	}
	if known {
		return a, nil
	}
	if c.GiveUp == "" {
		m.uncalled = nil
	}
	k := &asking{c: &c}
	for err = errNeedsShort; err == errNeedsShort; { // the session to wait in begins only when it is needed
		if err = s.sessionsOf(ctx, m, k); err != nil {
			err = orContended(ctx, began, heard, err)
			continue
		}
		heard = store.Now()
		k.op = op{at: c.Name, apply: k.apply, asks: true, again: k.again, short: k.short}
		if !c.Try {
			k.claim = &c
		}
		noted, put := s.records.place(ctx, &k.op, func(patience time.Duration) (bool, error) { return s.awaitTakenIn(ctx, m, k, patience) })
		if a, err = s.answer(ctx, m, k, noted, put); err == errNeedsShort {
			heard = store.Now()
			continue
		}
		err = orContended(ctx, began, heard, err)
	}
	if err != nil {
		return store.Answer{}, s.failed("ask for", c.Name, err)
	}
	if c.GiveUp != "" {
		s.askHolders(ctx, m, &c)
	}
	return a, nil
}

// prepare has the backend try its server, once. It returns when it began, and when it was done.
func (s *Store) prepare(ctx context.Context) (began, done store.Instant, err error) {
	began = store.Now()
	p, ok := s.b.(Preparer)
	if !ok {
		return began, began, nil
	}
	if err = p.Prepare(ctx); err != nil {
		err = orContended(ctx, began, p.Heard(), err)
	}
	return began, store.Now(), err
}

// checkClaim rejects, before any I/O, what the store does not support.
func (s *Store) checkClaim(c *store.Claim) error {
	if err := s.bounds.CheckClaim(c); err != nil {
		return err
	}
	for _, p := range []struct {
		promise store.Promise
		d       time.Duration
	}{{store.PromiseMinHold, c.MinHold}, {store.PromiseLockDelay, c.LockDelay}} {
		if why, lacks := s.d.Lacks[p.promise]; lacks && p.d > 0 {
			return fmt.Errorf("%w: %q: a %s: %s", store.ErrUnsupported, c.Name, p.promise, why)
		}
	}
	return nil
}

// lengthen adds to a minimum hold and a lock delay the possible error of the server's time. That time may have been
// behind when the name was granted, or when the hold was found to have expired, and ahead when it shows whether they
// have ended.
func (s *Store) lengthen(c *store.Claim) {
	if c.MinHold > 0 {
		c.MinHold += s.traits.Age //mutant:record-minimum-hold-by-an-old-time
	}
	if c.LockDelay > 0 {
		c.LockDelay += s.traits.Age //mutant:record-lock-delay-by-an-old-time
	}
}

// An asking is an ask under way: the sessions for its claim, and what its last run found in the record.
type asking struct {
	op
	c           *store.Claim
	long, short *session.Session     // a new entry goes into one of them; short: nil, or begun
	to          *session.Session     // an existing entry moves to this; nil: it stays where it is
	calls       map[session.ID]int64 // call counters of the sessions when it was sent
	flight      *session.Flight      // renewal of the session that it is likely to be in

	a     store.Answer
	in    session.ID // of the entry
	there bool       // there is an entry
	owner string     // of the entry
	asked bool       // a waiter asks the holders to give up

	shared bool // Record.Shared
}

// apply applies an ask to a record. A new entry goes into the long session if it is granted, and into the short one
// if it waits. An existing entry stays in its session unless k.to is set. What counts is the record, whatever was
// asked for before, in whichever session (law 1).
func (k *asking) apply(v *view) (change queue.Change, err error) {
	c := k.c
	if v.untimed && (c.MinHold > 0 || c.LockDelay > 0) { //mutant:record-claims-by-no-time
		return change, errUntimed()
	}
	k.a, k.in, k.there, k.owner, k.asked = store.Answer{}, session.ID{}, false, "", false
	k.a, change, err = v.q.Ask(v.now, c.Name, c)
	k.ahead, k.shared = k.a.Waiting, v.of.Shared
	e := v.find(c.ID)
	switch crowd := v.reportsEnd && len(v.q.Entries) > fewCome; {
	case k.a.Granted:
	case c.Waits: // the ask that follows finds out whether the holders are alive //mutant:record-who-waits-asks-twice
	case c.Try || !crowd:
		v.refuse(c)
		if c.Try { // a dead waiter must be found out as well as the holders
			k.a.Unsure = v.unsure()         //mutant:record-try-is-sure
			v.all = v.all || k.a.Unsure > 0 //mutant:record-waiters-are-watched
		}
	case v.stored[c.ID]:
		v.again = append(v.again, c.ID)
	}
	if err != nil || e == nil {
		return change, err
	}
	v.wishes(c.ID, e)
	in, known := v.in[c.ID]
	switch {
	case known && k.to != nil:
		in = k.to.ID
	case known:
	case e.Granted:
		in = k.long.ID
	case k.short == nil || !k.short.Use(): //mutant:record-session-ends-meanwhile
		gone, _ := v.q.Release(v.now, &store.Hold{Name: c.Name, ID: c.ID})
		change.Woken = append(change.Woken, gone.Woken...)
		return change, errNeedsShort
	default:
		in = k.short.ID
	}
	v.in[c.ID], k.in, k.there, k.owner = in, in, true, e.Owner
	k.asked = v.q.GiveUp(v.now, c.ID) != ""
	return change, nil
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := s.checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, false)
	defer s.exit(m)
	sent := store.Now()
	v, inbox, err := s.records.lookFor(ctx, &c, m != nil)
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
		s.records.remember(c.Name, v.of, inbox, sent)
	}
	return a, nil
}

// polled records the result of a poll for a waiting claim: the claim keeps its position, or it was granted, under
// the conditions of law 6. Only a written token is a grant: a claim that fits but was not written is not granted.
func (s *Store) polled(m *localClaim, c *store.Claim, a *store.Answer, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.waits || m.unsure || m.moving != nil || m.sess == nil || v.in[m.id] != m.sess.ID { //mutant:record-poll-beside-an-ask
		return
	}
	switch st := m.sess.State(); {
	case st.Over || st.Failing:
	case !a.Granted && st.Suspect: // an ask has to put it into another session //mutant:record-poll-in-a-suspect-session
	case !a.Granted && (c.GiveUp == "" || m.uncalled != nil && len(m.uncalled) == 0): // otherwise an ask has to call the holders //mutant:record-poll-calls-nobody
		lasts(a, st, c.PositionTTL)
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL)) //mutant:record-poll-keeps-the-position
	case a.Token > 0: //mutant:record-poll-finds-room
		a.From, a.TTL = st.Renewed, min(c.TTL, st.Lasts) //mutant:record-poll-finds-the-grant
		m.shared = m.shared || v.of.Shared               //mutant:record-shared-grant-of-a-poll
		s.granted(m, c, a, v.q.GiveUp(v.now, c.ID) != "")
	}
}
