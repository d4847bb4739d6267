package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Ask implements [store.Store]. A grant of a free name has an expiry of its own, and is
// kept by a session from its first renewal on. What waits is kept by the short session
// of this process: to ask for it again is to read.
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
	for range repeats {
		if a, done, err := s.askOnce(ctx, m, &c); done || err != nil {
			if err != nil && store.Definite(err) || err == nil && !a.Granted && c.Try {
				s.nothing(m)
			}
			return a, err
		}
		// Its row was dropped, as nobody had used it for a day.
		s.seen.set(c.Name, unknown)
	}
	return store.Answer{}, fmt.Errorf("%w: ask for %q on %s: its row came and went %d times", store.ErrUnavailable, c.Name, s.address, repeats)
}

// nothing notes that nothing is stored of a claim that was asked for, unless it was
// asked for before.
func (s *Store) nothing(m *localClaim) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if m.sess == nil && m.late == 0 && m.token == 0 {
		s.forget(m)
	}
}

func (s *Store) askOnce(ctx context.Context, m *localClaim, c *store.Claim) (a store.Answer, done bool, err error) {
	if a, ok := s.fromNotification(m, c); ok {
		return a, true, nil
	}
	name, n := []byte(c.Name), c.Tokens()
	args := []any{name, c.ID[:], c.Limit, c.Weight, int64(n), micros(c.TTL), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner)}
	args = args[:len(args):len(args)]
	kept := s.keeper(m)
	again := kept != nil
	if !again && s.seen.get(c.Name) != inUse { // what was in use is so still, most likely
		sent := store.Now()
		token, err := s.askFree(ctx, c.Name, append(args, micros(store.TokenRetention+max(c.TTL+c.LockDelay, c.MinHold))))
		if err != nil {
			return a, false, err
		}
		if token != 0 {
			a = store.Answer{Granted: true, Token: token, N: n, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: token + int64(n) - 1}
			s.answered(m, c, &a, c.Owner, nil, 0, sent)
			return a, true, nil
		}
	}
	var over over
	var flight *session.Flight
	in, from, late := []byte{}, array{}, int64(0)
	if to, maybe, err := s.longer(ctx, m, c); err != nil {
		return a, false, err
	} else if to != nil {
		kept, flight, in = to.Session, to.flight, to.ID[:]
		for _, id := range maybe {
			from.bytes(string(id[:]))
		}
	} else if c.Try || kept != nil {
		// What needs no write needs no lock: who is ahead now was there while
		// we asked.
		sent, calls := store.Now(), callsOf(kept)
		f, err := s.lookAhead(ctx, c.Name, c.ID)
		if err != nil {
			return a, false, err
		}
		if !f.there && kept == nil {
			return a, false, nil
		}
		if e := f.entry(c.ID); e != nil && kept != nil {
			// What was granted has its token; what waits still needs a write only to let it in.
			if a, err = f.poll(c); err != nil || e.Granted || !a.Granted && len(f.ended) == 0 {
				return s.asked(ctx, m, c, f, a, err, kept, nil, calls, sent)
			}
		} else if kept != nil {
			return a, true, s.overTaken(m)
		} else if a, change, err := f.q.Ask(f.time(), c.Name, c); !change.Wrote {
			a.Waiting += f.skipped
			return a, true, err
		}
		over.sessions = f.ended
	}
	joins := kept == nil && s.keeps() && !c.Try && c.PositionTTL >= minTTL
	if joins {
		if kept, err = s.sessions.Present(ctx, min(c.PositionTTL, c.TTL)); err != nil {
			return a, false, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
		}
		in, late = kept.ID[:], s.tooLate()
	}
	for short := joins && c.Weight == c.Limit; ; short = false {
		sent, calls := store.Now(), callsOf(kept)
		var f *found
		if short {
			f, err = s.read(ctx, "ask for", c.Name, s.do.askBehind, name, c.ID[:], c.Limit, int64(n), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner), in, late)
		} else {
			f, err = s.act(ctx, "ask for", c.Name, over, s.do.ask, append(args, micros(c.PositionTTL), c.Try, in, late, from.text())...)
		}
		switch {
		case err != nil:
			s.mayComeLate(m, late, err)
			return a, false, err
		case !f.there && short:
			continue
		case !f.there:
			return a, false, nil
		}
		if err := f.lost(); err != nil {
			return a, true, err
		}
		whose := holders
		if f.isBehind(c.ID) { // whoever is next asks, and this one when it asks again
			whose = nobodys
		}
		if err := s.judge(ctx, f, whose); err != nil {
			return a, false, err
		}
		e := f.entry(c.ID)
		if len(f.ended) > 0 && (e == nil || !e.Granted) { // they were in the way
			over.sessions = f.ended
			continue
		}
		if e != nil && e.Granted && len(f.q.Entries) == 1 {
			s.seen.set(c.Name, idle) // when it is given back
		}
		a, err = f.poll(c)
		if e == nil && again {
			return a, true, s.overTaken(m)
		}
		if e == nil && err == nil && !c.Try { //mutant:pg-too-late-is-told
			return a, false, fmt.Errorf("%w: ask for %q on %s: it came too late", store.ErrUnavailable, c.Name, s.address)
		}
		return s.asked(ctx, m, c, f, a, err, kept, flight, calls, sent)
	}
}

// heard notes a notification that is the grant of a claim which waits, and reports whether it did:
// then who asks again is answered by it.
func (s *Store) heard(n *store.Notification) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m := s.claims.of[n.ID]
	if m == nil || m.name != n.Name || n.Token == 0 || m.token != 0 || m.left {
		return false
	}
	m.heard = n
	return true
}

// fromNotification is the answer to an ask that a notification has answered (law 6 of the records): the
// claim waits, so its entry is where its session keeps it, and the grant counts from the session's last
// renewal. Its calls stay those before the row was read last, so who has broken it since is heard of.
func (s *Store) fromNotification(m *localClaim, c *store.Claim) (a store.Answer, ok bool) {
	s.claims.mu.Lock()
	n, sess, calls := m.heard, m.sess, m.calls
	m.heard = nil // whoever asks again reads
	waits := m.token == 0 && !m.over
	s.claims.mu.Unlock()
	if n == nil || sess == nil || !waits {
		return a, false
	}
	st := sess.State()
	if st.Over || st.Failing {
		return a, false
	}
	a = store.Answer{
		Granted: true, Token: n.Token, N: n.N, TTL: min(c.TTL, st.Lasts), From: st.Renewed, //mutant:pg-notification-counts-from-the-ask
		Weight: c.Weight, Want: c.Weight, Last: n.Token + int64(n.N) - 1,
	}
	s.waited(c.Name)
	s.answered(m, c, &a, c.Owner, sess, calls, st.Renewed)
	return a, true
}

// keeps reports whether sessions keep what waits and what is renewed. In tests that set
// the clock all have an expiry of their own.
func (s *Store) keeps() bool { return s.clock == nil }

// keeper is the session that keeps a claim, or nil.
func (s *Store) keeper(m *localClaim) *session.Session {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.sess
}

// longer is the session that a hold moves to which is asked for again, and for longer than the session lasts that
// keeps it; and those that it may be in. Nil: it stays.
func (s *Store) longer(ctx context.Context, m *localClaim, c *store.Claim) (*keeper, []session.ID, error) {
	s.claims.mu.Lock()
	moves := m.token != 0 && m.sess != nil && m.sess.TTL < c.TTL
	r := &renewal{h: &store.Hold{Name: c.Name, ID: c.ID, Token: m.token, TTL: c.TTL}, m: m}
	s.claims.mu.Unlock()
	if !moves {
		return nil, nil, nil
	}
	if err := s.prepare(ctx, r, map[time.Duration]*keeper{}); err != nil {
		return nil, nil, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
	}
	return r.by, r.maybe, nil
}

func callsOf(sess *session.Session) int64 {
	if sess == nil {
		return 0
	}
	return sess.State().Calls
}

// tooLate is when an ask that is sent now takes no place in a session any more, on the
// server's clock.
func (s *Store) tooLate() int64 {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.claims.serverNow() + s.claims.late.Microseconds()
}

// mayComeLate notes that an ask was not answered, and may be done until it is too late: what
// it brings then is nobody's, and no session's end would take it out.
func (s *Store) mayComeLate(m *localClaim, late int64, err error) {
	if store.Definite(err) {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.late = max(m.late, late)
}

// overTaken is of a claim that a session of ours kept and that is there no more: somebody has broken it, or
// knew better than we that the session has ended.
func (s *Store) overTaken(m *localClaim) error {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.over, m.ends = true, store.Now().Add(remembered)
	return store.ErrLost
}

// asked is the answer to an ask of which the entry is in f. It counts from the last answered renewal of the
// session that keeps the entry, or from the ask.
func (s *Store) asked(
	ctx context.Context, m *localClaim, c *store.Claim, f *found, a store.Answer, why error, kept *session.Session, flight *session.Flight, calls int64, sent store.Instant,
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
	st := sess.Wait(ctx, flight)
	if st.Over {
		return store.Answer{}, true, s.overTaken(m)
	}
	a.From = st.Renewed
	if a.Granted {
		a.TTL = min(c.TTL, st.Lasts) //mutant:pg-grant-outlasts-its-session
		s.waited(c.Name)
	}
	s.answered(m, c, &a, e.Owner, sess, calls, st.Renewed)
	return a, true, nil
}

// answered notes what the owner of a claim is told, which counts from an instant.
func (s *Store) answered(m *localClaim, c *store.Claim, a *store.Answer, owner string, sess *session.Session, calls int64, from store.Instant) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.into(sess)
	m.calls = calls
	lasts := c.PositionTTL
	if a.Granted {
		m.token, m.used, m.owner, lasts = a.Token, a.Token, owner, a.TTL
		m.reads = c.MinHold > 0 || a.Want > a.Weight // its minimum hold begins with its first renewal
		m.told = store.Renewal{Weight: a.Weight, Want: a.Want, UpgradeToken: a.UpgradeToken}
	}
	m.until = max(m.until, from.Add(lasts))
	m.ends = max(m.until, store.Now().Add(lasts))
}

// A use is how a name was found when it was last asked for.
type use int

const (
	unknown use = iota // it may have no row
	idle               // it has a row, and nobody in it
	inUse              // somebody holds it
)

// askFree runs the statement for a name that nobody uses, and makes the table
// if it is missing. It returns 0 if somebody does.
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

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(c.Name, c.ID, false)
	defer s.exit(m)
	if err := s.gone(ctx, m); err != nil {
		return store.Answer{}, err
	}
	f, err := s.lookAhead(ctx, c.Name, c.ID)
	if err != nil {
		return store.Answer{}, err
	}
	a, err := f.poll(&c)
	if in, is := f.in[c.ID]; is && err == nil {
		if sess := s.sessions.Own(in); sess != nil {
			a.From = sess.State().Renewed
		}
	}
	return a, err
}
