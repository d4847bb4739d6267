package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Renew implements [store.Store]. It renews each session that keeps any of the holds once. It
// writes a row only to put a hold into a session, if the owner has new values, or if the hold may
// have changed, which the calls of its session show. It also reads each row now and then. One
// statement writes all rows that need nothing else; each of the others takes one.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	return s.renew(ctx, holds, true)
}

// renew is Renew. shows: the owners have used the tokens, so minimum holds count.
func (s *Store) renew(ctx context.Context, holds []store.Hold, shows bool) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	began := store.Now()
	s.renewSessions(ctx, holds)
	s.seeRows(ctx, holds, began)
	// One statement changes a row only once, and which of two changes it takes is undefined. So
	// there are rounds, each with one hold per name, to keep the order of the holds.
	var rounds [][]*renewal
	var left []*renewal // those that need a statement of their own
	named, own := map[string]int{}, map[string]bool{}
	keepers := map[time.Duration]*keeper{}
	for i := range holds {
		h := &holds[i]
		out[i].TTL = h.TTL
		if out[i].Err = bounds.CheckRenewal(h); out[i].Err != nil {
			continue
		}
		round := named[h.Name]
		if round == 0 && !own[h.Name] {
			if r, done := s.unchanged(h, began); done {
				out[i] = r
				continue
			}
		}
		r := &renewal{i: i, h: h, ttl: h.TTL, shows: shows, m: s.enter(h.Name, h.ID, false)}
		defer func() { s.exit(r.m) }()
		announces := h.Announce && s.tells(r.m, h) //mutant:pg-note-of-a-batch
		if err := s.gone(ctx, r.m); err != nil {
			out[i].Err = err
		} else if err := s.prepare(ctx, r, keepers); err != nil {
			if out[i].Err = err; !store.Definite(err) {
				out[i].Err = s.failed(fmt.Sprintf("renew %q", h.Name), err)
			}
		} else if own[h.Name] || h.NewID != (store.ID{}) || !shows || announces { //mutant:pg-renew-rounds
			left = append(left, r)
			own[h.Name] = true
		} else {
			if named[h.Name]++; round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], r)
		}
	}
	failed := map[string]bool{} // names with a hold that its batch did not renew: later holds are renewed after it
	for _, batch := range rounds {
		batch = slices.DeleteFunc(batch, func(r *renewal) bool {
			if failed[r.h.Name] {
				left = append(left, r)
			}
			return failed[r.h.Name]
		})
		for _, r := range s.renewBatch(ctx, batch, out) {
			left = append(left, r)
			failed[r.h.Name] = true //mutant:pg-renew-behind-a-failure
		}
		s.whyAsked(ctx, batch, out) // before later statements on the same holds
	}
	// A locked row delays only its own name.
	slices.SortFunc(left, func(a, b *renewal) int { return cmp.Compare(a.i, b.i) })
	of := map[string][]*renewal{}
	for _, r := range left {
		of[r.h.Name] = append(of[r.h.Name], r)
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, renewers)
	for _, some := range of {
		slots <- struct{}{}
		wait.Go(func() {
			for i, r := range some {
				out[r.i] = s.renewOne(ctx, r)
				s.whyAsked(ctx, some[i:i+1], out)
			}
			<-slots
		})
	}
	wait.Wait()
	return out
}

// tells reports whether a hold's renewal changes what others see of it.
func (s *Store) tells(m *localClaim, h *store.Hold) bool {
	if m == nil {
		return true
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return h.Owner != "" && h.Owner != m.owner || h.Used > m.used
}

// A renewal renews one hold by a write of its row.
type renewal struct {
	i     int
	h     *store.Hold
	m     *localClaim
	in    []session.ID // sessions it may be in: the first, unless an unanswered statement has moved it
	by    *keeper      // nil: from now on it has an expiry of its own, as when it is adopted
	ttl   time.Duration
	ended over // what is known of the sessions that may have kept it
	moves bool // no other statement that moves it is unanswered
	shows bool // its owner has used the token
	sent  store.Instant
	calls int64
	asked *standing // its row was written and may have a request to give up
}

// A keeper is the session that keeps the holds of one TTL from now on.
type keeper struct {
	*session.Session
	flight *session.Flight
}

// prepare finds the session that is to keep a hold: its present one if that is long enough,
// otherwise the process's present one for the TTL. Until the move is answered, the hold ends with
// the earlier of the two. The new session is renewed first, so that this end is no earlier than the
// owner expects (law 10 of the records).
func (s *Store) prepare(ctx context.Context, r *renewal, keepers map[time.Duration]*keeper) error {
	h, m := r.h, r.m
	var was, to *session.Session
	var until store.Instant
	adopts, alone := h.NewID != (store.ID{}), false
	var also []session.ID
	if m != nil {
		s.claims.mu.Lock()
		if was, to, also, until = m.sess, m.to, m.also, m.until; adopts {
			m.handed = true // only its row shows whether it has another id //mutant:pg-handed-on-is-read
		}
		alone = s.keeps() && !adopts && m.staysAlone(r)
		s.claims.mu.Unlock()
	}
	for _, sess := range []*session.Session{was, to} {
		if sess != nil {
			r.in = append(r.in, sess.ID)
		}
	}
	r.in = append(r.in, also...)
	if adopts && m == nil && h.ID.Process() != (store.Process{}) { // the other process's session may have ended
		f, err := s.lookJudged(ctx, h.Name, holders)
		if err != nil {
			return err
		}
		r.ended = f.ended
	}
	switch {
	case !s.keeps() || adopts: // on its way to another process it outlives this one, and a late effect expires by itself
		return nil
	case alone, m == nil: // it was not asked for on this Store
		return nil
	case to != nil && !to.State().Suspect: // a late copy of that statement changes nothing
		r.by = &keeper{to, to.Fresh()}
	case was != nil && was.TTL >= h.TTL && !was.State().Suspect:
		r.by = &keeper{was, was.Fresh()}
	default:
		ttl := h.TTL
		if was != nil {
			ttl = max(ttl, was.TTL) // otherwise it could end earlier than its owner expects //mutant:pg-suspect-of-a-longer-renewal
		}
		if r.by = keepers[ttl]; r.by != nil && !r.by.Over() {
			break
		}
		sess, err := s.sessions.Present(ctx, ttl)
		switch {
		case err == nil:
			r.by = &keeper{sess, sess.Fresh()}
			keepers[ttl] = r.by
		case was != nil && was.TTL >= h.TTL && to == nil: // it is as good as before //mutant:pg-no-session-to-move-to
			r.by = &keeper{was, was.Fresh()}
		default:
			return err
		}
	}
	if r.by.Session != was {
		if !r.by.outlasts(ctx, until) {
			if was == nil && to == nil { // it needs no session
				r.by = nil
				return nil
			}
			return errNotRenewed
		}
		s.claims.mu.Lock()
		m.moves(r.by.Session)
		m.moved, r.moves = true, to == nil
		s.claims.mu.Unlock()
	}
	r.calls = r.by.State().Calls
	return nil
}

// outlasts reports whether the session lasts until an instant at least, and renews it if necessary.
func (k *keeper) outlasts(ctx context.Context, until store.Instant) bool {
	goes := func(st session.State) bool { return !st.Over && st.Renewed.Add(st.Lasts) >= until } //mutant:pg-move-ends-a-hold-early
	return goes(k.Wait(ctx, k.flight)) || goes(k.Wait(ctx, k.Renew()))
}

// staysAlone reports whether a hold has an expiry of its own for good, from a renewal on: its owner
// renews it explicitly (ByHand), or asks for it again. That expiry is no earlier than its owner
// expects. A hold that was sent into a session stays there, because a copy of that statement could
// put it there again at any time. claims.mu is held.
func (m *localClaim) staysAlone(r *renewal) bool {
	if m.moved { //mutant:pg-sent-into-a-session-stays
		return false
	}
	m.alone = m.alone || r.h.ByHand || !r.shows //mutant:pg-by-hand-is-alone
	if m.alone {
		r.ttl = max(r.ttl, m.until.Sub(store.Now())) //mutant:pg-own-expiry-is-no-earlier
	}
	return m.alone
}

// to returns the session that keeps the hold from now on, or zero.
func (r *renewal) to() session.ID {
	if r.by == nil {
		return session.ID{}
	}
	return r.by.ID
}

// renewBatch renews the holds that need only a later expiry, or a session, by one statement. It
// returns those that need more.
func (s *Store) renewBatch(ctx context.Context, batch []*renewal, out []store.Renewal) (left []*renewal) {
	if len(batch) == 0 {
		return nil
	}
	var names, ids, tokens, ttls, used, owners, in, kept array
	for _, r := range batch {
		names.bytes(r.h.Name)
		ids.bytes(string(r.h.ID[:]))
		tokens.number(r.h.Token)
		ttls.number(micros(r.ttl))
		used.number(r.h.Used)
		owners.bytes(r.h.Owner)
		in.session(r.to())
		now := session.ID{}
		if len(r.in) > 0 {
			now = r.in[0]
		}
		kept.session(now)
		r.sent = store.Now()
	}
	done := map[int]bool{}
	args := []any{names.text(), ids.text(), tokens.text(), ttls.text(), used.text(), owners.text(), in.text(), kept.text()}
	err := s.run(ctx, s.do.renewFast, args, func() { clear(done) }, func(scan func(...any) error) error {
		var i, weight, want, upgradeToken int64
		var asked bool
		var durable *string
		if err := scan(&i, &weight, &want, &upgradeToken, &asked, &durable); err != nil {
			return err
		}
		if i < 1 || int(i) > len(batch) {
			return fmt.Errorf("hold %d of %d was renewed", i, len(batch))
		}
		r := batch[i-1]
		out[r.i] = store.Renewal{TTL: r.h.TTL, Weight: weight, Want: want, UpgradeToken: upgradeToken}
		if r.asked = nil; asked {
			r.asked = &standing{name: r.h.Name, id: r.h.ID, token: r.h.Token, in: r.to()}
		}
		done[int(i-1)] = true
		return nil
	})
	for i, r := range batch {
		switch {
		case isNoTable(err):
			out[r.i].Err = store.ErrLost
		case err != nil:
			out[r.i] = store.Renewal{TTL: r.h.TTL, Err: s.failed(fmt.Sprintf("renew %q", r.h.Name), err)}
		case !done[i]:
			left = append(left, r)
		default:
			out[r.i] = s.keptBy(ctx, r, out[r.i])
		}
	}
	return left
}

// renewOne renews a hold by the full statement. A hold of a process that may still have it first
// gets its new id, and leaves that process's session once the process was called (law 14 of the
// records).
func (s *Store) renewOne(ctx context.Context, r *renewal) store.Renewal {
	h := r.h
	newID := []byte{}
	if h.NewID != (store.ID{}) {
		newID = h.NewID[:]
	}
	by := r.to()
	to := by[:]
	if r.by == nil {
		to = []byte{}
	}
	var f *found
	for in := append(r.in, session.ID{}); ; {
		var may array
		for _, id := range in {
			may.session(id)
		}
		var err error
		r.sent = store.Now()
		f, err = s.act(ctx, "renew", h.Name, r.ended, s.do.renew,
			[]byte(h.Name), h.ID[:], h.Token, micros(r.ttl), h.Used, []byte(h.Owner), newID, to, may.text(), r.shows, h.Announce)
		if err = cmp.Or(err, lostOr(f)); err != nil {
			s.notRenewed(r, err)
			return store.Renewal{TTL: h.TTL, Err: err}
		}
		other, kept := f.in[h.NewID]
		if !kept {
			break
		}
		err = s.call(ctx, other) //mutant:pg-adopts-uncalled
		if err != nil {
			return store.Renewal{TTL: h.TTL, Err: err}
		}
		in = append(in, other)
	}
	out, _ := f.q.Renew(f.time(), h)
	if out.Err != nil {
		return out
	}
	if out.GiveUp != "" {
		id := cmp.Or(h.NewID, h.ID)
		out.GiveUp, r.asked = "", &standing{name: h.Name, id: id, token: h.Token, in: f.in[id]}
	}
	if h.NewID != (store.ID{}) {
		s.leave(r.m, nil, true)
		s.exit(r.m)
		r.m = nil
		if h.NewID.Process() == (store.Process{}) {
			return out
		}
	}
	return s.keptBy(ctx, r, out)
}

// notRenewed notes that a renewal by the full statement failed.
func (s *Store) notRenewed(r *renewal, err error) {
	if !store.Definite(err) || r.m == nil {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	r.m.reads = true // if it was broken, it is removed when it would have expired
	var broken *store.LostError
	if errors.Is(err, store.ErrLost) && !errors.As(err, &broken) { // by then the adopter has moved it or has died
		s.claims.looksFor(r.h.Name, store.Now().Add(s.claims.late)) //mutant:pg-adopted-and-left-is-looked-for
	}
	if r.moves {
		r.m.to = nil
	}
}

// keptBy completes a renewal whose row was written. It counts from the last answered renewal of the
// session that keeps the hold.
func (s *Store) keptBy(ctx context.Context, r *renewal, out store.Renewal) store.Renewal {
	h := r.h
	if r.m == nil {
		r.m = s.enter(h.Name, cmp.Or(h.NewID, h.ID), true)
	}
	m := r.m
	from, sess := r.sent, (*session.Session)(nil)
	if r.by != nil {
		sess = r.by.Session
		st := sess.Wait(ctx, r.by.flight)
		out.TTL, out.From, from = min(h.TTL, st.Lasts), st.Renewed, st.Renewed
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.into(sess)
	if m.isOver() {
		return store.Renewal{TTL: h.TTL, Err: store.ErrLost}
	}
	m.seen, m.calls, m.reads = r.sent, r.calls, out.Want > out.Weight || !r.shows
	m.announces = h.Announce
	m.owner, m.used, m.token = cmp.Or(h.Owner, m.owner), max(m.used, h.Used, h.Token), h.Token
	m.returned = store.Renewal{Weight: out.Weight, Want: out.Want, UpgradeToken: out.UpgradeToken}
	m.asked = r.asked != nil || m.askedAt >= r.sent
	s.renewed(m, out.TTL, from)
	return out
}
