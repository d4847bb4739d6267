package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
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
		s.seen.set(c.Name, false)
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
	name, n := []byte(c.Name), c.Tokens()
	args := []any{name, c.ID[:], c.Limit, c.Weight, int64(n), micros(c.TTL), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner)}
	args = args[:len(args):len(args)]
	kept, again := s.keeper(m)
	if !again {
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
	var flight *session.Flight
	if kept != nil {
		flight = kept.Fresh()
	}
	var over over
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
		f, err := s.lookJudged(ctx, c.Name, false)
		if err != nil {
			return a, false, err
		}
		if e := f.entry(c.ID); e != nil && kept != nil {
			// What was granted has its token; what waits still needs a write only to let it in.
			if a, err = f.q.Poll(f.time(), c.Name, c); err != nil || e.Granted || !a.Granted && len(f.ended) == 0 {
				return s.asked(ctx, m, c, f, a, err, kept, flight, calls, sent)
			}
		} else if kept != nil {
			return a, true, s.overTaken(m)
		} else if a, change, err := f.q.Ask(f.time(), c.Name, c); !change.Wrote {
			return a, true, err
		}
		over.sessions = f.ended
	}
	if kept == nil && s.keeps() && !c.Try && c.PositionTTL >= minTTL {
		if kept, err = s.sessions.Present(ctx, min(c.PositionTTL, c.TTL)); err != nil {
			return a, false, s.failed(fmt.Sprintf("ask for %q", c.Name), err)
		}
		flight, in, late = kept.Fresh(), kept.ID[:], s.tooLate()
	}
	for {
		sent, calls := store.Now(), callsOf(kept)
		f, err := s.act(ctx, "ask for", c.Name, over, s.do.ask, append(args, micros(c.PositionTTL), c.Try, in, late, from.text())...)
		switch {
		case err != nil:
			s.mayComeLate(m, late, err)
			return a, false, err
		case !f.there:
			return a, false, nil
		}
		if err := f.lost(); err != nil {
			return a, true, err
		}
		if err := s.judge(ctx, f, false); err != nil {
			return a, false, err
		}
		e := f.entry(c.ID)
		if len(f.ended) > 0 && (e == nil || !e.Granted) { // they were in the way
			over.sessions = f.ended
			continue
		}
		a, err = f.q.Poll(f.time(), c.Name, c)
		if e == nil && again {
			return a, true, s.overTaken(m)
		}
		if e == nil && err == nil && !c.Try { //mutant:pg-too-late-is-told
			return a, false, fmt.Errorf("%w: ask for %q on %s: it came too late", store.ErrUnavailable, c.Name, s.address)
		}
		return s.asked(ctx, m, c, f, a, err, kept, flight, calls, sent)
	}
}

// keeps reports whether sessions keep what waits and what is renewed. In tests that set
// the clock all have an expiry of their own.
func (s *Store) keeps() bool { return s.clock == nil }

// keeper is the session that keeps a claim, or nil; and whether it was answered before.
func (s *Store) keeper(m *localClaim) (sess *session.Session, again bool) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.sess, m.sess != nil
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

// askFree runs the statement for a name that nobody uses, and makes the table
// if it is missing. It returns 0 if somebody does.
func (s *Store) askFree(ctx context.Context, name string, args []any) (token int64, err error) {
	statement := s.do.askFast
	if s.seen.get(name) {
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
	if token != 0 {
		s.seen.set(name, true)
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
	f, err := s.lookJudged(ctx, c.Name, false)
	if err != nil {
		return store.Answer{}, err
	}
	a, err := f.q.Poll(f.time(), c.Name, &c)
	if in, is := f.in[c.ID]; is && err == nil {
		if sess := s.sessions.Own(in); sess != nil {
			a.From = sess.State().Renewed
		}
	}
	return a, err
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	if err := s.gone(ctx, m); err != nil {
		return store.Answer{}, err
	}
	if m != nil {
		s.claims.mu.Lock()
		m.reads = true // its next renewal tells how it stands
		s.claims.mu.Unlock()
	}
	for over := (over{}); ; {
		f, err := s.act(ctx, "change the weight of", h.Name, over, s.do.change, []byte(h.Name), h.ID[:], h.Token, int64(turn), weight)
		if err = cmp.Or(err, lostOr(f)); err != nil {
			return store.Answer{}, err
		}
		if f.verdict == "I" {
			return store.Answer{}, store.NotUpgradeableError(h.Name)
		}
		if err := s.judge(ctx, f, false); err != nil {
			return store.Answer{}, err
		}
		if e := f.entry(h.ID); len(f.ended) > 0 && e != nil && e.Want > e.Weight { // they were in the way
			over.sessions = f.ended
			continue
		}
		// It has been applied, so this only says how the hold stands.
		a, _, err := f.q.Change(f.time(), &h, turn, weight)
		return a, err
	}
}

func lostOr(f *found) error {
	if f == nil {
		return nil
	}
	return f.lost()
}

// A way is the statement that gives a hold back.
type way int

const (
	alone  way = iota // nobody waits: the shortest
	next              // the next is let in, and nothing else
	beside            // whatever else there is
)

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	why := s.gone(ctx, m)
	if broken := (*store.LostError)(nil); why != nil && !errors.As(why, &broken) {
		err := s.settle(ctx, h.Name, h.ID) // what is left of it has expired //mutant:pg-expired-is-not-given-back
		if s.leave(m, err == nil); err == nil && h.Token != 0 {
			err = why
		}
		return err
	}
	err := s.release(ctx, &h, s.lone(m))
	if err == nil || !store.Definite(err) || s.isToken(m, h.Token) { // else it was another's, so to say
		s.leave(m, err == nil || store.Definite(err))
	}
	return err
}

// isToken reports whether a claim was granted with the token.
func (s *Store) isToken(m *localClaim, token int64) bool {
	if m == nil {
		return false
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.token == token
}

// lone reports whether no session keeps a claim: it has an expiry of its own.
func (s *Store) lone(m *localClaim) bool {
	if m == nil {
		return !s.keeps()
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return m.sess == nil && m.to == nil
}

func (s *Store) release(ctx context.Context, h *store.Hold, lone bool) error {
	const what = "release"
	args := []any{[]byte(h.Name), h.ID[:], h.Token, h.Used}
	by := s.ways.get(h.Name) // as the last time, most likely
	if h.Token != 0 && by != beside {
		done, woke := false, false
		statement := s.do.releaseFast
		if by == next {
			statement = s.do.releaseNext
		}
		err := s.run(ctx, statement, append(args[:len(args):len(args)], !lone), func() { done, woke = false, false }, func(scan func(...any) error) error {
			done = true
			var durable *string
			return scan(&woke, &durable)
		})
		if err != nil && !isNoTable(err) {
			return s.failed(fmt.Sprintf("%s %q", what, h.Name), err)
		}
		if done {
			if !woke {
				s.ways.set(h.Name, alone)
			}
			return nil
		}
	}
	f, err := s.act(ctx, what, h.Name, over{}, s.do.release, args...)
	if err == nil && h.Token != 0 {
		switch {
		case f.woken == 0:
			s.ways.set(h.Name, alone)
		case by == alone:
			s.ways.set(h.Name, next)
		default: // that was in vain
			s.ways.set(h.Name, beside)
		}
	}
	if h.Token == 0 {
		return err
	}
	return cmp.Or(err, lostOr(f))
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	f, err := s.lookJudged(ctx, b.Name, false)
	if err != nil {
		return err
	}
	reason := cmp.Or(b.Reason, "no reason given")
	f, err = s.act(ctx, "break", b.Name, over{sessions: f.ended}, s.do.breaks, []byte(b.Name), b.ID[:], b.Token, []byte(reason), b.Now)
	if err = cmp.Or(err, lostOr(f)); err != nil {
		return err
	}
	return s.call(ctx, f.was)
}

// call has the owner of what a session keeps, or kept a moment ago, read it with its next renewal.
func (s *Store) call(ctx context.Context, in session.ID) error {
	if in == (session.ID{}) {
		return nil
	}
	return s.sessions.Call(ctx, in) //mutant:pg-break-calls-nobody
}

// names are remembered for how they were when they were last used, so that the
// statement for names of another kind is not sent in vain.
type names[V comparable] struct {
	mu  sync.Mutex
	are map[string]V
}

// mostNames bounds what is remembered.
const mostNames = 1000

// get returns what was set, or the zero V.
func (n *names[V]) get(name string) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.are[name]
}

func (n *names[V]) set(name string, v V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var zero V
	_, known := n.are[name]
	switch {
	case v == zero:
		delete(n.are, name)
	case n.are == nil || len(n.are) >= mostNames && !known:
		n.are = map[string]V{name: v}
	default:
		n.are[name] = v
	}
}
