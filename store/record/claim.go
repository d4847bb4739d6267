package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A localClaim is a claim of this process. Store.mu guards it. If the contract serializes an operation, only that
// operation changes its fields.
type localClaim struct {
	name string
	id   store.ID

	sess    *session.Session // of its entry; nil: unknown
	moving  *session.Session // a move of its hold to this session was not answered (law 10)
	toCalls int64            // the call counter of moving when the move began
	gone    error            // why its owner has lost it; nil: not lost
	sent    bool             // it was asked for before: it may be in the record, whatever this process knows of the name
	waits   bool             // its owner learned that it waits, and has not begun to give up
	drop    bool             // to be removed from the record; retried until done
	taking  bool             // a removal is under way
	busy    int              // operations under way
	ends    store.Instant    // it is removed then, unless renewed

	calls    int64         // call counter of its session, when its record was last read
	reads    bool          // its next renewal has something to read or to write
	asked    bool          // a waiter asks to give it up, as far as known: its renewals read why
	askedAt  store.Instant // when a notification last said so: earlier reads do not show it
	heard    *Notification // the one of its grant
	token    int64         // of its grant, once returned to its owner; 0 before
	used     int64
	owner    string
	returned store.Renewal // its state, as last returned to its owner
	watched  []session.ID  // the sessions ahead of it
	also     []session.ID  // further ones that a notification named at alsoAt; no record was read since
	alsoAt   store.Instant
	takenIn  session.ID    // a notification said that its entry was in the record under this session
	rest     chan struct{} // closed when its ask need no longer wait for that; nil: no ask waits
	back     *store.Hold   // its owner's release that was not answered; nil: none
	read     store.Instant // when a renewal last read from the server that its hold is there
	unsure   bool          // an ask or an adoption was not answered: its entry may be in any session
	shared   bool          // another program may take its lock: its renewals read
	failed   int           // how often its removal failed

	uncalled map[session.ID]bool // sessions still to be called, of holders that it asks to give up; nil: unknown. Only its asks and changes use it
	upgrade  int32               // the turn of the upgrade that uncalled is for; 0: it is for the waiting claim

	keep  time.Duration // its minimum hold, where that is a session of its own
	since store.Instant // when the grant was returned to its owner
	shown bool          // the minimum hold has begun
}

// enter begins an operation on a claim of this process. It returns nil if there is no such claim; with makes it
// creates one.
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

// exit ends the operation that enter began.
func (s *Store) exit(m *localClaim) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.busy--; {
	case m.busy == 0 && m.sess == nil && m.token == 0 && m.gone == nil: // nothing of it was sent //mutant:record-unsent-is-remembered
		s.forget(m)
	case m.drop:
		s.poke() // due skips a busy claim //mutant:record-dropped-is-looked-at
	}
}

// into sets the session of the claim. Store.mu is held.
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

// forget drops the claim: nothing of it is stored any more. Store.mu is held.
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

// unwatch stops watching sessions for a claim. Store.mu is held.
func (s *Store) unwatch(m *localClaim) {
	for _, id := range m.watched {
		s.sessions.Unwatch(id, m.id)
	}
	m.watched = nil
}

// nothing is forget with locking.
func (s *Store) nothing(m *localClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(m)
}

// remembered is how long the reason of a loss is kept.
const remembered = time.Minute

// lose marks the claim as lost for its owner. A write then removes its remaining entry, in whichever session that is
// (law 10). Store.mu is held.
func (m *localClaim) lose(why error) {
	if m.gone == nil {
		m.gone, m.drop, m.waits, m.ends = why, true, false, store.Now()
	}
}

// check finds out whether the session of the claim has ended. Then the claim is lost, as are all others of that
// session (law 2). A hold whose move was not answered ends with the earlier of its two sessions (law 10). Store.mu
// is held.
func (m *localClaim) check() {
	if m.gone != nil {
		return
	}
	if m.sess != nil && m.sess.Over() || m.moving != nil && m.moving.Over() {
		m.lose(store.ErrLost)
	}
}

// isGone returns why a claim of this process is lost, or nil.
func (s *Store) isGone(m *localClaim) error {
	if m == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.check()
	return m.gone
}

// lost records that an operation returned that the claim is lost. there: it was broken and still blocks.
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
		m.ends = max(m.ends, store.Now()) // it is removed when it would have been otherwise
		m.drop = true
	} else {
		m.ends = store.Now().Add(remembered)
		m.into(nil) //mutant:record-lost-keeps-a-session
	}
}

// whyGone returns why a claim is lost. If the claim was broken and still blocks, it reads the reason again: the
// claim may have been broken since, or once more.
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

// moves prepares a claim's move to another session, which the write that follows makes (law 10). Until that is
// answered, the claim ends with the earlier of the two. The new session is renewed first, so that this is no earlier
// than its owner knows.
func (s *Store) moves(ctx context.Context, m *localClaim, from, to *session.Session) error {
	before := from.State()
	if st := to.State(); st.Renewed.Add(st.Lasts) < before.Renewed.Add(before.Lasts) {
		if st = to.Wait(ctx, to.Renew()); st.Over || st.Renewed.Add(st.Lasts) < before.Renewed.Add(before.Lasts) {
			return fmt.Errorf("%w: a session of %v could not be renewed", store.ErrUnavailable, to.TTL)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.moving != to {
		m.reads = m.reads || m.moving != nil // it may be in a third session: only an answer shows that //mutant:record-third-session-is-forgotten
		m.moving, m.toCalls = to, to.State().Calls
	}
	return nil
}

// awaitTakenIn waits, for at most patience, for a notification that the note of a claim was taken in. That replaces
// a read: an entry stays in the record until its owner removes it or its session ends.
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
			k.a = store.Answer{} // by a record that was not the newest
		}
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, contended(ctx)
	}
}

// answer returns the answer to an ask; err says why the ask may not have been done. An entry in the record or the
// inbox counts from the last answered renewal of its session (law 1).
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
	m.shared = k.shared
	m.into(sess)
	if m.check(); m.gone != nil {
		return store.Answer{}, store.ErrLost
	}
	m.calls = k.calls[sess.ID] // if unknown, its next renewal reads //mutant:record-called-while-it-asks
	a := k.a
	unasked(&a)
	if m.waits = !a.Granted; m.waits {
		lasts(&a, st, c.PositionTTL)
		m.ends = max(m.ends, store.Now().Add(c.PositionTTL))
	} else {
		a.From = st.Renewed
		a.TTL = min(c.TTL, st.Lasts) //mutant:record-grant-outlasts-its-session
		s.granted(m, c, &a, k.asked)
	}
	s.poke()
	return a, nil
}

// refused records that an ask failed. A definite error means that it stored nothing: then what earlier asks stored,
// or its own note, is removed; a hold stays.
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

// unasked removes from an answer the times that are unknown because the sessions of the holders were not checked.
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

// lasts sets from when a position counts, and for how long. A notification alone may grant it, so it lasts no longer
// than its session, which may be less than the position TTL.
func lasts(a *store.Answer, st session.State, position time.Duration) {
	a.From = st.Renewed
	if st.Lasts < position { //mutant:record-position-outlasts-its-session
		a.TTL = st.Lasts
	}
}

// granted records the grant that is returned to the owner of a claim. asked: a waiter asks to give it up. Store.mu
// is held.
func (s *Store) granted(m *localClaim, c *store.Claim, a *store.Answer, asked bool) {
	if m.token == 0 {
		m.since = store.Now()
		if s.traits.bySession() {
			m.keep = c.MinHold
		}
	}
	m.waits, m.heard = false, nil
	m.used, m.token, m.reads = a.Token, a.Token, c.MinHold > 0 || a.Want > a.Weight //mutant:record-asked-is-as-news
	m.reads = m.reads || m.shared                                                   //mutant:record-shared-hold-is-read
	m.asked = m.asked || asked                                                      //mutant:record-granted-while-asked
	m.returned = store.Renewal{Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken}
	m.ends = max(m.ends, store.Now().Add(c.TTL))
	s.unwatch(m)
}

// known answers an ask without the record: the claim is lost, or a notification granted it. The notification counts
// as the grant, without a read to confirm it, if the claim still waits and the notification's session is its present
// one, which is renewed (law 6). The grant counts from that session's last renewal, never from this ask (law 1).
func (s *Store) known(m *localClaim, c *store.Claim) (a store.Answer, ok bool, gone error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.check(); m.gone != nil {
		return a, false, m.gone
	}
	n := m.heard
	m.heard = nil                                                        // a repeated ask reads
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
	// m.calls stays what it was when the record was read: a later call may be a
	// break of the hold.
	s.granted(m, c, &a, n.Asked)
	return a, true, nil
}

// askHolders calls the sessions of the holders of the name when a waiting claim begins to ask them to give up.
// Claims granted later learn of it with the grant.
func (s *Store) askHolders(ctx context.Context, m *localClaim, c *store.Claim) {
	s.mu.Lock()
	waits := m.waits
	s.mu.Unlock()
	if !waits {
		m.uncalled = nil
		return
	}
	s.callHolders(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.ends = max(m.ends, store.Now().Add(c.PositionTTL)) // its owner learns only now that it waits
}

// callHolders calls the sessions of the other holders of a claim's name, each once (law 16), so that their next
// renewals read why they are asked to give up. The next call of callHolders repeats a failed call.
func (s *Store) callHolders(ctx context.Context, m *localClaim) {
	if m.uncalled == nil {
		r, err := s.records.read(ctx, m.name)
		if err != nil {
			return
		}
		v, err := decode(r.Data, s.records.present())
		if err != nil {
			return
		}
		m.uncalled = map[session.ID]bool{}
		for i := range v.q.Entries {
			if e := &v.q.Entries[i]; e.Granted && e.ID != m.id { //mutant:record-upgrade-calls-itself
				m.uncalled[v.in[e.ID]] = true //mutant:record-asked-to-give-up-unheard
			}
		}
	}
	for in := range m.uncalled {
		if s.sessions.Call(ctx, in) == nil { //mutant:record-call-that-failed-is-forgotten
			delete(m.uncalled, in)
		}
	}
}

// failed adds to an error what failed, the name and the store. An error that says that the claim is lost, or was
// asked for with another limit, stays as it is.
func (s *Store) failed(what, at string, err error) error {
	lost, mismatch := (*store.LostError)(nil), (*store.MismatchError)(nil)
	switch {
	case err == nil || err == store.ErrLost || errors.As(err, &lost) || errors.As(err, &mismatch):
		return err
	case store.Definite(err), errors.Is(err, store.ErrContended):
		return fmt.Errorf("%s %q on %s: %w", what, at, s.d.Store, err)
	}
	return fmt.Errorf("%w: %s %q on %s: %w", store.ErrUnavailable, what, at, s.d.Store, err)
}
