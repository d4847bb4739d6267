package record

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A localClaim is a claim of this process. It is guarded by Store.mu; what the contract
// says is asked for one after the other is changed by that operation alone.
type localClaim struct {
	name string
	id   store.ID

	sess    *session.Session // that keeps its entry; nil: not known
	moving  *session.Session // a move of its hold to this one was not answered (law 10)
	toCalls int64            // how often that had been called when the move began
	gone    error            // why it is lost for its owner; nil: it is not
	sent    bool             // it was asked for before: it may be in the record, whatever is known of the name
	waits   bool             // its owner was told that it waits, and has not begun to give up
	drop    bool             // to be taken out of the record, however often that takes
	taking  bool             // that is under way
	busy    int              // operations under way
	ends    store.Instant    // ended then, unless it is renewed

	calls   int64         // of its session, when its record was read last
	reads   bool          // its renewals have something to read or to write
	asked   bool          // a waiter asks to give it up, as far as we know: its renewals read why
	askedAt store.Instant // when a notification said so last: what was read before does not tell
	heard   *Notification // that told of its grant
	token   int64         // of its grant, once its owner was told; 0 before
	used    int64
	owner   string
	told    store.Renewal // how it stands, as its owner was told
	watched []session.ID  // those ahead of it
	also    []session.ID  // that were told to be, and when; no record read since has told
	alsoAt  store.Instant
	takenIn session.ID    // its entry was in the record under this one, as a notification said
	rest    chan struct{} // closed when its ask need not wait for that any more; nil: no ask does
	back    *store.Hold   // as its owner gave it back, and was not answered; nil: it did not
	read    store.Instant // when it was last read that its hold is there, for a renewal
	unsure  bool          // an ask or an adoption was not answered: its entry may be in any session
	failed  int           // times that it could not be taken out

	uncalled map[session.ID]bool // of holders that it asks to give up, and that are to be called yet; nil: not known. Its asks alone use it

	keep  time.Duration // its minimum hold, where that is a session of its own
	since store.Instant // when its owner was told of the grant
	shown bool          // the minimum hold has begun
}

// enter begins an operation on a claim of this process, or returns nil if there is no such
// claim; with makes it makes one.
func (s *Store) enter(at string, id store.ID, makes bool) *localClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.claims[id]
	if m == nil && makes {
		m = &localClaim{name: at, id: id, ends: store.Now()}
		s.claims[id] = m
	}
	if m != nil {
		m.busy++
	}
	return m
}

// exit ends what enter began.
func (s *Store) exit(m *localClaim) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.busy--; m.drop {
		s.poke() // while it was busy it was left alone //mutant:record-dropped-is-looked-at
	}
}

// into notes which session keeps the claim. Store.mu is held.
func (m *localClaim) into(sess *session.Session) {
	if m.sess == sess {
		return
	}
	if m.sess != nil {
		m.sess.Leave()
	}
	if m.sess = sess; sess != nil {
		sess.Enter()
	}
}

// forget notes that nothing of the claim is stored any more. Store.mu is held.
func (s *Store) forget(m *localClaim) {
	if m == nil {
		return
	}
	m.into(nil)
	s.unwatch(m)
	if s.claims[m.id] == m {
		delete(s.claims, m.id)
	}
}

// unwatch ends the watching of a claim. Store.mu is held.
func (s *Store) unwatch(m *localClaim) {
	for _, id := range m.watched {
		s.sessions.Unwatch(id, m.id)
	}
	m.watched = nil
}

// nothing is forget, with the lock.
func (s *Store) nothing(m *localClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(m)
}

// remembered is for how long who asks for a claim that is lost is told why.
const remembered = time.Minute

// lose notes that the claim is gone for its owner. What is left of it is taken out by
// a write, under whichever session it is (law 10). Store.mu is held.
func (m *localClaim) lose(why error) {
	if m.gone == nil {
		m.gone, m.drop, m.waits, m.ends = why, true, false, store.Now()
	}
}

// check finds out whether the session of the claim has ended: then the claim is lost, with
// all others that it keeps (law 2). A hold whose move was not answered ends with
// the earlier of the two (law 10). Store.mu is held.
func (m *localClaim) check() {
	if m.gone != nil {
		return
	}
	if m.sess != nil && m.sess.Over() || m.moving != nil && m.moving.Over() {
		m.lose(store.ErrLost)
	}
}

// isGone is why a claim of ours is lost, or nil.
func (s *Store) isGone(m *localClaim) error {
	if m == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.check()
	return m.gone
}

// lost notes that an operation was told that the claim is lost. there: it blocks still,
// as it was broken.
func (s *Store) lost(m *localClaim, why error, there bool) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.gone != nil {
		return
	}
	m.gone, m.waits = why, false
	if there {
		m.ends = max(m.ends, store.Now()) // it is ended when it would have been
		m.drop = true
	} else {
		m.ends = store.Now().Add(remembered)
		m.into(nil) //mutant:record-lost-keeps-a-session
	}
}

// whyGone is why a claim is lost. If it was broken and blocks still the reason is looked
// up: somebody may have broken it since, or again.
func (s *Store) whyGone(ctx context.Context, m *localClaim, why error) error {
	v, err := s.records.look(ctx, m.name, wholly)
	if err != nil {
		return why
	}
	if e := v.find(m.id); e != nil && e.Broken != nil {
		return &store.LostError{Reason: e.Reason()}
	}
	return store.ErrLost
}

// unsent forgets a claim that has no session, if nothing of it was sent.
func (s *Store) unsent(m *localClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.sess == nil && m.token == 0 {
		s.forget(m)
	}
}

// awaitTakenIn waits for a notification that the note of a claim was taken in, for so long. That
// serves for a reading: an entry that was there stays until its owner takes it out, or its session ends.
func (s *Store) awaitTakenIn(ctx context.Context, m *localClaim, k *asking, patience time.Duration) (taken bool, err error) {
	rest := make(chan struct{})
	s.mu.Lock()
	m.into(k.short)
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
		if k.in, k.there = k.short.ID, true; k.a.Granted {
			k.a = store.Answer{} // on what was not the newest
		}
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, contended(ctx)
	}
}

// answer is what an ask is told that was done, or of which err says why it may not have been. An entry that is in the record or
// the inbox counts from the last answered renewal of the session that keeps it (law 1).
func (s *Store) answer(ctx context.Context, m *localClaim, k *asking, noted bool, err error) (store.Answer, error) {
	switch {
	case err == errNeedsShort:
		return store.Answer{}, err
	case errors.Is(err, store.ErrLost):
		broken := (*store.LostError)(nil)
		s.lost(m, err, errors.As(err, &broken))
		return store.Answer{}, err
	case err != nil:
		s.refused(m, k.c, noted, err)
		return store.Answer{}, err
	case !k.there:
		s.nothing(m)
		return k.a, nil
	}
	c := k.c
	sess := s.sessions.Own(k.in) //mutant:record-grant-counts-from-another-session
	if sess == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		m.lose(store.ErrLost)
		return store.Answer{}, store.ErrLost
	}
	st := sess.Wait(ctx, k.flight)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.moving, m.unsure, m.owner = nil, false, k.owner //mutant:record-owner-of-the-entry
	m.into(sess)
	if m.check(); m.gone != nil {
		return store.Answer{}, store.ErrLost
	}
	m.calls = k.calls[sess.ID] // not known: its next renewal reads //mutant:record-called-while-it-asks
	a := k.a
	a.From = placedFrom(st, c.PositionTTL)
	unasked(&a)
	if m.waits = !a.Granted; m.waits {
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL))
	} else {
		a.From = st.Renewed
		a.TTL = min(c.TTL, st.Lasts) //mutant:record-grant-outlasts-its-session
		s.granted(m, c, &a, k.asked)
	}
	s.poke()
	return a, nil
}

// refused notes that an ask has an error. One that is definite has stored nothing: what those before have, or its own note, is
// taken out; a hold stays.
func (s *Store) refused(m *localClaim, c *store.Claim, noted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !store.Definite(err):
		m.unsure, m.ends = true, max(m.ends, store.Now().Add(c.TTL)) //mutant:record-ask-unanswered
	case m.token != 0: //mutant:record-refused-hold-stays
	case m.waits || m.unsure || noted: //mutant:record-refused-claim-goes
		m.lose(store.ErrLost)
	default:
		s.forget(m)
	}
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

// placedFrom is from when a position counts. Its owner takes it to last for all of its PositionTTL from then, and may be
// granted in it by a notification alone; so that is no longer than its session lasts, which can be less than its TTL.
func placedFrom(st session.State, position time.Duration) store.Instant {
	return st.Renewed.Add(min(st.Lasts-position, 0)) //mutant:record-position-outlasts-its-session
}

// granted notes what the owner of a claim is told. asked: a waiter asks to give it up. Store.mu is held.
func (s *Store) granted(m *localClaim, c *store.Claim, a *store.Answer, asked bool) {
	if m.token == 0 {
		m.since = store.Now()
		if s.traits.bySession() {
			m.keep = c.MinHold
		}
	}
	m.waits, m.heard = false, nil
	m.used, m.token, m.reads = a.Token, a.Token, c.MinHold > 0 || a.Want > a.Weight //mutant:record-asked-is-as-news
	m.asked = m.asked || asked                                                      //mutant:record-granted-while-asked
	m.told = store.Renewal{Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken}
	m.ends = max(m.ends, store.Now().Add(c.TTL))
	s.unwatch(m)
}

// known is the answer to an ask that needs no record: that the claim is gone, or the grant of which a notification has told. That is
// the grant, without a read to confirm it, as the claim still waits and the session is its
// present one, which is renewed (law 6). It counts from the session's last renewal,
// never from this ask (law 1).
func (s *Store) known(m *localClaim, c *store.Claim) (a store.Answer, ok bool, gone error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.check(); m.gone != nil {
		return a, false, m.gone
	}
	n := m.heard
	m.heard = nil                                                        // whoever asks again reads
	if n == nil || !m.waits || m.sess == nil || n.Session != m.sess.ID { //mutant:record-notification-of-another-session
		return a, false, nil
	}
	if m.moving != nil { // its entry may be in another session by now //mutant:record-notification-before-a-move
		return a, false, nil
	}
	st := m.sess.State()
	if st.Over || st.Failing {
		return a, false, nil
	}
	a = store.Answer{
		Granted: true, Token: n.Token, N: n.N, TTL: min(c.TTL, st.Lasts), From: st.Renewed, //mutant:record-notification-counts-from-the-ask
		Weight: c.Weight, Want: c.Weight, Last: n.Token + int64(n.N) - 1,
	}
	// m.calls stays what it was when the record was read: whoever has called since
	// may have broken it.
	s.granted(m, c, &a, n.Asked)
	return a, true, nil
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
