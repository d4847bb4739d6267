package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Ask implements [store.Store]. A grant of a free name has an expiry of its own, and a session
// keeps it from its first renewal on. The short session of this process keeps waiters, so asking
// again only reads.
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	defer s.sweep()
	m := s.enter(c.Name, c.ID, true)
	defer s.exit(m)
	if err := s.gone(ctx, m); err != nil {
		return store.Answer{}, err
	}
	if h, moves := s.moves(m, &c); moves { //mutant:pg-asked-for-beside-a-move
		const shows = false // asking does not use the token //mutant:pg-asked-for-is-shown
		if err := s.renew(ctx, []store.Hold{h}, shows)[0].Err; err != nil {
			return store.Answer{}, err
		}
	}
	defer s.asks(m, &c)
	if err := s.leavesSuspect(ctx, m, &c); err != nil {
		return store.Answer{}, err
	}
	for range repeats {
		if a, done, err := s.askOnce(ctx, m, &c); done || err != nil {
			if err != nil && store.Definite(err) || err == nil && !a.Granted && c.Try {
				s.nothing(m)
			}
			return a, err
		}
		// The row was deleted because it was unused for a day.
		s.seen.set(c.Name, unknown)
	}
	return store.Answer{}, fmt.Errorf("%w: ask for %q on %s: its row came and went %d times", store.ErrUnavailable, c.Name, s.address, repeats)
}

// nothing notes that nothing is stored of a claim, unless it was asked for before.
func (s *Store) nothing(m *localClaim) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if m.sess == nil && m.comes == 0 && m.token == 0 && !m.over { //mutant:pg-over-taken-is-remembered
		s.forget(m)
	}
}

// An asking is one ask under way.
type asking struct {
	*Store
	m     *localClaim
	c     *store.Claim
	args  []any            // first arguments of the statements that ask
	again bool             // a session keeps the claim already
	polls bool             // it writes nothing and calls no session
	kept  *session.Session // keeps the claim, or is to keep it while it waits
	joins bool             // its entry goes into kept, if it has to wait
	late  int64            // server time after which it adds no entry
	over  over
}

func (s *Store) askOnce(ctx context.Context, m *localClaim, c *store.Claim) (a store.Answer, done bool, err error) {
	k := asking{Store: s, m: m, c: c, args: []any{
		[]byte(c.Name), c.ID[:], c.Limit, c.Weight, int64(c.Tokens()), micros(c.TTL), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner),
	}}
	k.args = k.args[:len(k.args):len(k.args)]
	k.kept = s.keeper(m)
	k.again = k.kept != nil
	if !k.again && s.seen.get(c.Name) != inUse { // a name in use most likely still is
		if a, done, err := k.free(ctx); done || err != nil {
			return a, done, err
		}
	}
	switch {
	case c.Try || k.again:
		if a, writes, err := k.look(ctx); err != nil || !writes {
			return a, err == nil, err
		}
	case s.keeps() && c.PositionTTL >= minTTL:
		if k.kept, err = s.sessions.Present(ctx, min(c.PositionTTL, c.TTL)); err != nil {
			return a, false, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
		}
		k.joins, k.late = true, s.tooLate()
	}
	return k.write(ctx)
}

// free asks for an unused name.
func (k *asking) free(ctx context.Context) (a store.Answer, done bool, err error) {
	c, sent := k.c, store.Now()
	lasts := max(c.TTL+c.LockDelay, c.MinHold) //mutant:pg-kept-granted
	token, err := k.askFree(ctx, c.Name, append(k.args, micros(store.TokenRetention+lasts), c.Announce))
	if err != nil && !k.undone(err) { // a grant after the caller has given up would last for its TTL
		k.mayComeLate(k.m, 0) //mutant:pg-late-grant-is-taken-out
	}
	if err != nil || token == 0 {
		return a, false, err
	}
	n := c.Tokens()
	a = store.Answer{Granted: true, Token: token, N: n, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: token + int64(n) - 1}
	k.answered(k.m, c, &a, c.Owner, nil, 0, sent)
	return a, true, nil
}

// look answers without a write, and so without a lock: the entries ahead now were ahead during the
// ask.
func (k *asking) look(ctx context.Context) (a store.Answer, writes bool, err error) {
	c, sent, calls := k.c, store.Now(), callsOf(k.kept)
	f, err := k.lookAhead(ctx, c.Name, c.ID)
	if err != nil {
		return a, false, err
	}
	k.over = f.ended
	switch e := f.entry(c.ID); {
	case k.again && e == nil:
		return a, false, k.overTaken(k.m)
	case k.again:
		// A granted claim has its token; a waiting one needs a write only to be granted.
		if a, err = f.poll(c); err == nil && !e.Granted && (a.Granted || len(f.ended) > 0 || e.Asks() != c.GiveUp) { //mutant:pg-asks-later
			return a, true, nil
		}
		if k.polls && k.callsYet() {
			return a, false, err
		}
		a, _, err = k.asked(k.m, c, f, a, err, k.kept, calls, sent)
		if err == nil && !k.polls && !a.Granted {
			k.callHolders(ctx, k.m, c.GiveUp, c.PositionTTL, f)
		}
		return a, false, err
	default:
		a, change, err := f.q.Ask(f.time(), c.Name, c)
		if change.Wrote {
			return a, true, nil
		}
		a.Waiting += f.skipped
		return a, false, k.mismatch(ctx, c, f, err)
	}
}

// write asks by a statement that may write. It passes ended entries that blocked one attempt to the
// next.
func (k *asking) write(ctx context.Context) (a store.Answer, done bool, err error) {
	m, c := k.m, k.c
	in, placed := []byte{}, false // placed: an entry may be in the session without being known
	defer func() {
		if k.joins && err != nil && (placed || !k.undone(err)) { //mutant:pg-place-of-a-failed-ask-is-noted
			k.mayComeLate(m, k.late)
		}
	}()
	if k.joins { // the session must last as long as this takes
		k.kept.Enter()
		defer k.kept.Leave()
		in = k.kept.ID[:]
	}
	for short := k.joins && c.Weight == c.Limit && c.GiveUp == ""; ; short = false {
		sent, calls := store.Now(), callsOf(k.kept)
		var f *found
		if short {
			f, err = k.read(ctx, "ask for", c.Name, k.do.askBehind, []byte(c.Name), c.ID[:], c.Limit, int64(c.Tokens()), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner), in, k.late)
		} else {
			f, err = k.act(ctx, "ask for", c.Name, k.over, k.do.ask, append(k.args, micros(c.PositionTTL), c.Try, in, k.late, []byte(c.GiveUp), c.Announce)...)
		}
		switch {
		case err != nil:
			return a, false, err
		case !f.there && short:
			continue
		case !f.there:
			return a, false, nil
		}
		if err := f.lost(); err != nil {
			return a, true, err
		}
		placed = placed || f.in[c.ID] != (session.ID{})
		of := ahead(c.ID)                //mutant:pg-next-asks-about-holders
		if k.joins && f.isBehind(c.ID) { // the first waiter checks; this one does when it asks again //mutant:pg-who-asks-again-asks-about-holders
			of = nobodys
		}
		if err := k.judge(ctx, f, of); err != nil {
			return a, false, err
		}
		e := f.entry(c.ID)
		if len(f.ended) > 0 && (e == nil || !e.Granted) { // ended sessions blocked it
			k.over = f.ended
			continue
		}
		if e != nil && e.Granted && len(f.q.Entries) == 1 {
			k.seen.set(c.Name, idle) // when it is released
		}
		a, err = f.poll(c)
		if err == nil && a.Granted && (e == nil || !e.Granted) { //mutant:pg-would-be-granted
			if short { // the entries ahead have expired since
				continue
			}
			return store.Answer{}, false, fmt.Errorf("%w: ask for %q on %s: it was not granted, although there is room", store.ErrUnavailable, c.Name, k.address)
		}
		if e == nil && k.again {
			return a, true, k.overTaken(m)
		}
		if e == nil && err == nil && k.joins { //mutant:pg-too-late-is-told
			return a, false, fmt.Errorf("%w: ask for %q on %s: it came too late", store.ErrUnavailable, c.Name, k.address)
		}
		a, done, err = k.asked(m, c, f, a, err, k.kept, calls, sent)
		if err == nil && !c.Try && !a.Granted {
			k.callHolders(ctx, m, c.GiveUp, c.PositionTTL, f)
		}
		return a, done, err
	}
}

// keeps reports whether sessions keep waiters and renewed holds. In tests that set the clock, every
// entry has an expiry of its own.
func (s *Store) keeps() bool { return s.clock == nil }

// keeper returns the session that keeps a claim, or nil.
func (s *Store) keeper(m *localClaim) *session.Session {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.sess
}

// moves reports whether a hold that is asked for again must move first: its TTL is longer than that
// of the session in which it waited; or a statement that moves it into another session, or out of
// one, was not answered and may take effect after this ask.
func (s *Store) moves(m *localClaim, c *store.Claim) (h store.Hold, moves bool) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	h = store.Hold{Name: c.Name, ID: c.ID, Token: cmp.Or(m.token, m.heard), TTL: c.TTL}
	return h, h.Token != 0 && m.to != nil || m.token != 0 && m.sess != nil && (m.alone || m.sess.TTL < c.TTL) //mutant:pg-alone-leaves-before-an-ask
}

func callsOf(sess *session.Session) int64 {
	if sess == nil {
		return 0
	}
	return sess.State().Calls
}

// tooLate returns the server time after which an ask that is sent now adds no entry to a session.
func (s *Store) tooLate() int64 {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.claims.serverNow() + s.claims.late.Microseconds()
}

// mayComeLate notes that an ask was not answered, and may have taken effect or may still do so. Its
// entry then has no owner, and no session's end would remove it. In a session the ask adds no entry
// after the server time late. (For a free name late is 0: the ask may take effect even later, and
// its entry expires with its TTL.)
func (s *Store) mayComeLate(m *localClaim, late int64) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.late, m.comes = max(m.late, late), max(m.comes, store.Now().Add(s.claims.late))
}

// overTaken handles a claim that a session of this process kept and that is missing now: it was
// broken, or another process found that the session has ended.
func (s *Store) overTaken(m *localClaim) error {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.over, m.ends = true, store.Now().Add(remembered)
	if m.to == nil { // it is remembered, but does not keep a session from ending
		m.into(nil) //mutant:pg-over-taken-keeps-a-session
	}
	return store.ErrLost
}

// asked completes an ask whose entry is in f. The answer counts from the last answered renewal of
// the session that keeps the entry, or from the ask.
func (s *Store) asked(
	m *localClaim, c *store.Claim, f *found, a store.Answer, why error, kept *session.Session, calls int64, sent store.Instant,
) (store.Answer, bool, error) {
	e := f.entry(c.ID)
	if why != nil || e == nil {
		return a, true, why
	}
	in, is := f.in[c.ID]
	if !is {
		s.answered(m, c, &a, e.Owner, nil, 0, sent)
		return a, true, nil
	}
	sess := s.sessions.Own(in)
	if sess == nil {
		return store.Answer{}, true, s.overTaken(m)
	}
	if sess != kept {
		calls = -1 // its next renewal reads
	}
	st := sess.State()
	if st.Over {
		return store.Answer{}, true, s.overTaken(m)
	}
	if a.From = placedFrom(&st, c); a.Granted {
		a.From, a.TTL = st.Renewed, min(c.TTL, st.Lasts) //mutant:pg-grant-outlasts-its-session
		s.waited(c.Name)
	}
	s.answered(m, c, &a, e.Owner, sess, calls, st.Renewed)
	return a, true, nil
}

// answered notes the answer to the owner of a claim. It counts from the instant given.
func (s *Store) answered(m *localClaim, c *store.Claim, a *store.Answer, owner string, sess *session.Session, calls int64, from store.Instant) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.into(sess)
	m.announces = c.Announce
	m.calls, m.seen = calls, max(m.seen, from)
	lasts := c.PositionTTL
	if a.Granted {
		m.token, m.used, m.owner, lasts = a.Token, a.Token, owner, a.TTL
		m.reads = c.MinHold > 0 || a.Want > a.Weight // its minimum hold begins with its first renewal
		m.asked = true                               // perhaps a waiter asks it to give up: its first renewal reads that //mutant:pg-granted-while-asked
		m.returned = store.Renewal{Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken}
	}
	m.until = max(m.until, from.Add(lasts))
	m.ends = max(m.until, store.Now().Add(lasts))
}

// A use is how a name was found when it was last asked for.
type use int

const (
	unknown use = iota // it may have no row
	idle               // it has a row without entries
	inUse              // it is held
)

// askFree runs the statement for an unused name, and creates the tables if they are missing. It
// returns 0 if the name is in use.
func (s *Store) askFree(ctx context.Context, name string, args []any) (token int64, err error) {
	statement := s.do.askFast
	if s.seen.get(name) == idle {
		statement = s.do.askIdle
	}
	ask := func() error {
		return s.run(ctx, statement, args, func() { token = 0 }, func(scan func(...any) error) error {
			var durable *string
			return scan(&token, &durable)
		})
	}
	err = ask()
	if isNoTable(err) {
		if err := s.create(ctx); err != nil {
			return 0, err
		}
		statement = s.do.askFast
		err = ask()
	}
	if err != nil {
		return 0, s.failed(fmt.Sprintf("ask for %q", name), err)
	}
	if token == 0 {
		s.seen.set(name, inUse)
	} else {
		s.seen.set(name, idle)
	}
	return token, nil
}

// mismatch sets the limit in a MismatchError to the smallest of all entries, including those not
// read.
func (s *Store) mismatch(ctx context.Context, c *store.Claim, f *found, err error) error {
	var m *store.MismatchError
	if f.skipped == 0 || !errors.As(err, &m) { //mutant:pg-mismatch-names-all
		return err
	}
	if f, failed := s.lookJudged(ctx, c.Name, everybodys); failed == nil {
		if least := f.q.Limit(); least != 0 {
			m.Have = int64(least)
		}
	}
	return err
}

// placedFrom returns the instant from which a position lasts for its PositionTTL, so that it ends
// with its session.
func placedFrom(st *session.State, c *store.Claim) store.Instant {
	return st.Renewed.Add(min(0, st.Lasts-c.PositionTTL)) //mutant:pg-position-outlasts-its-session
}
