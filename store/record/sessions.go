package record

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// positionTTL is the TTL of the session of a waiter (law 10). A dead waiter blocks no longer than
// store.MaxPositionTTL, the most that a claim may ask for, or than the server's minimum TTL if that is longer.
func (s *Store) positionTTL(c *store.Claim) time.Duration {
	return min(max(c.PositionTTL, s.d.MinTTL), c.TTL) //mutant:record-waiter-in-the-long-session
}

// sessionsOf finds the sessions for an ask: the long one, and the short one if it has begun or is needed. It is
// needed if this is called again for the same ask. A claim that has a session stays there, unless it is asked for
// again for longer than before, or the session is suspect.
func (s *Store) sessionsOf(ctx context.Context, m *localClaim, k *asking) (err error) {
	position := s.positionTTL(k.c)
	if k.long == nil {
		k.long, err = s.sessions.Present(ctx, k.c.TTL)
		k.short = s.sessions.Begun(position)
	} else {
		k.short, err = s.sessions.Present(ctx, position)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	was, held, waits := m.sess, m.token != 0, m.waits
	s.mu.Unlock()
	k.to, k.flight = nil, k.long.Fresh()
	if waits && k.short != nil {
		k.flight = k.short.Fresh()
	}
	if was != nil && (held || waits) {
		to, suspect := k.short, was.State().Suspect //mutant:record-position-in-a-suspect-session
		if held {
			to = k.long
		}
		switch {
		case to == nil && suspect:
			return errNeedsShort
		case to == nil || to == was || was.TTL > to.TTL || was.TTL == to.TTL && !suspect:
		default:
			if err := s.moves(ctx, m, was, to); err != nil {
				return err
			}
			k.to = to
		}
	}
	k.calls = map[session.ID]int64{k.long.ID: k.long.State().Calls}
	if k.short != nil {
		k.calls[k.short.ID] = k.short.State().Calls
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.sess == nil {
		m.into(k.long)
	}
	k.again, m.sent = m.sent, true
	return nil
}

// leaves reports whether a renewal must move the hold to another session: a longer one (law 10), or one that is not
// suspect (law 15).
func (m *localClaim) leaves(h *store.Hold) bool {
	if m.sess.TTL < h.TTL { //mutant:record-hold-stays-in-the-short-session
		return true
	}
	return m.sess.State().Suspect //mutant:record-suspect-is-not-heeded
}

// sessionFor returns the session for the hold: the one it has, if that is long enough and not suspect; else the
// current one for the TTL, to which the hold moves (law 10).
func (s *Store) sessionFor(ctx context.Context, m *localClaim, h *store.Hold) (*session.Session, error) {
	s.mu.Lock()
	was, ttl := m.sess, h.TTL
	s.mu.Unlock()
	if was != nil && was.TTL >= ttl {
		if !was.State().Suspect {
			return was, nil
		}
		ttl = was.TTL // a shorter session could end before what its owner knows
	}
	sess, err := s.sessions.Present(ctx, ttl)
	if err != nil && was != nil && was.TTL >= h.TTL {
		return was, nil // no worse than before //mutant:record-no-session-to-move-to
	}
	if err != nil || was == nil || was == sess {
		return sess, err
	}
	return sess, s.moves(ctx, m, was, sess)
}

// waitInTime waits for the renewal of the session that a hold has just moved to, but for at most half of what is
// left of the previous one: the owner has to learn in time that the hold lasts longer.
func (s *Store) waitInTime(ctx context.Context, m *localClaim, sess *session.Session, f *session.Flight) session.State {
	s.mu.Lock()
	was := (*session.Session)(nil)
	if m != nil {
		was = m.sess
	}
	s.mu.Unlock()
	if was != nil && was != sess { //mutant:record-waits-beyond-what-it-leaves
		st := was.State()
		in, cancel := context.WithTimeout(ctx, st.Renewed.Add(st.Lasts).Sub(store.Now())/2)
		defer cancel()
		ctx = in
	}
	return sess.Wait(ctx, f)
}

// errNeedsKeep says that a token is shown whose minimum hold has to begin first.
var errNeedsKeep = errors.New("the minimum hold has not begun")

// beginKeep begins the minimum hold of a claim when its owner first shows its token. The zero ID means that there is
// no minimum hold, that nothing is left of it, or that it has begun already.
func (s *Store) beginKeep(ctx context.Context, m *localClaim) (id session.ID, err error) {
	if m == nil || !s.traits.bySession() {
		return id, nil
	}
	s.mu.Lock()
	left := m.keep - store.Now().Sub(m.since)
	none := m.token == 0 || m.shown || left <= 0
	s.mu.Unlock()
	if none {
		return id, nil
	}
	return s.keepFor(ctx, left)
}

// keepFor begins a session that lasts for d and is not renewed.
func (s *Store) keepFor(ctx context.Context, d time.Duration) (id session.ID, err error) {
	id = session.NewID()
	_, err = s.b.Begin(ctx, id, min(s.ticks(d), s.d.MaxTTL))
	return id, err
}

func (s *Store) ticks(ttl time.Duration) time.Duration {
	t := s.b.SessionTraits()
	return t.Ticks(ttl)
}
