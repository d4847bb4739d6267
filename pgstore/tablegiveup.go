package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// callHolders calls the sessions of the other holders of a name, each once, when a claim begins to
// ask them to give up. Their next renewals then read why. A failed call is repeated next time. A
// claim that is granted later reads the request with its first renewal. The asking claim is a hold
// with a pending upgrade, or a waiter, which then lasts for the time given.
func (s *Store) callHolders(ctx context.Context, m *localClaim, why string, lasts time.Duration, f *found) {
	s.claims.mu.Lock()
	if m.asks != why {
		m.asks, m.uncalled = why, nil
		for i := range f.q.Entries {
			e := &f.q.Entries[i]
			if in, kept := f.in[e.ID]; why != "" && e.Granted && e.ID != m.id && kept && !slices.Contains(m.uncalled, in) { //mutant:pg-upgrade-calls-itself
				m.uncalled = append(m.uncalled, in)
			}
		}
	}
	uncalled := m.uncalled
	s.claims.mu.Unlock()
	if len(uncalled) == 0 {
		return
	}
	var failed []session.ID
	for _, in := range uncalled {
		if s.sessions.Call(ctx, in) != nil { //mutant:pg-asks-uncalled
			failed = append(failed, in) //mutant:pg-call-that-failed-is-repeated
		}
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	m.uncalled = failed
	m.ends = max(m.ends, store.Now().Add(lasts)) // its owner learns only now that it waits
}

// A standing is a hold as its owner knows it.
type standing struct {
	m     *localClaim // may be nil
	name  string
	id    store.ID
	token int64
	in    session.ID // session that keeps it, or zero
	calls int64      // of that session, before the row is read
}

// stand reads which of the holds are still in their rows, and why each is asked to give up. It is
// one statement that writes nothing. The dead ask for nothing: stand removes their entries and
// reads the rows again.
func (s *Store) stand(ctx context.Context, all []standing) (why map[int]string, err error) {
	for range repeats {
		var names, ids, tokens, in array
		for i := range all {
			names.bytes(all[i].name)
			ids.bytes(string(all[i].id[:]))
			tokens.number(all[i].token)
			in.session(all[i].in)
		}
		asking := map[session.ID]string{} // sessions, each with one of the names in which it asks
		begin := func() { why = map[int]string{}; clear(asking) }
		err = s.run(ctx, s.do.stands, []any{names.text(), ids.text(), tokens.text(), in.text()}, begin, func(scan func(...any) error) error {
			var i int64
			var asks, in []byte
			if err := scan(&i, &asks, &in); err != nil || i < 1 || int(i) > len(all) {
				return err
			}
			if why[int(i-1)] = string(asks); len(in) == len(session.ID{}) {
				asking[session.ID(in)] = all[i-1].name
			}
			return nil
		})
		if err != nil || len(asking) == 0 {
			return why, err
		}
		if died, err := s.died(ctx, asking); err != nil || !died {
			return why, err
		}
	}
	return why, nil
}

// died removes the entries of those sessions that have ended, each in the name given, and reports
// whether any has.
func (s *Store) died(ctx context.Context, all map[session.ID]string) (any bool, err error) {
	var ask []session.ID
	for in := range all {
		if _, known := s.sessions.Known(in); !known {
			ask = append(ask, in)
		}
	}
	if len(ask) > 0 {
		if err := s.sessions.Ask(ctx, ask); err != nil {
			return false, err
		}
	}
	for in, name := range all {
		if left, known := s.sessions.Known(in); known && left <= 0 { //mutant:pg-the-dead-ask
			var ended over
			ended.add(in[:], -left)
			if err := s.drop(ctx, name, ended, true); err != nil {
				return false, err
			}
			any = true
		}
	}
	return any, nil
}

// seeRows reads the rows of holds that need nothing else if the rows are as expected: holds that
// were not read for long, whose sessions were called, or that are asked to give up. Their sessions
// must have been renewed since the renewal began. A hold whose row is not as expected has a renewal
// of its own. If the read fails, so has each hold whose session was called, or that was not read
// for long. A hold that is read only because it is asked to give up is renewed by its session, and
// its next renewal reads again.
func (s *Store) seeRows(ctx context.Context, holds []store.Hold, began store.Instant) {
	var all []standing
	s.claims.mu.Lock()
	for i := range holds {
		h := &holds[i]
		m := s.claims.of[h.ID]
		if m == nil || !m.rests(h) || m.isOver() {
			continue
		}
		if st := m.sess.State(); isFresh(st, began) && !st.Suspect && (m.unseen() || m.asked || st.Calls != m.calls) { //mutant:pg-asked-is-read
			all = append(all, standing{m, h.Name, h.ID, h.Token, m.sess.ID, st.Calls})
		}
	}
	s.claims.mu.Unlock()
	if len(all) == 0 {
		return
	}
	sent := store.Now()
	why, err := s.stand(ctx, all)
	if err != nil {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	for i := range all {
		m := all[i].m
		reason, stands := why[i]
		if !stands {
			m.reads = true
			continue
		}
		m.seen, m.calls = sent, all[i].calls
		m.isAsked(reason, sent)
	}
}

// isAsked notes why a hold is asked to give up, as read by a statement sent at the instant read.
// claims.mu is held.
func (m *localClaim) isAsked(reason string, read store.Instant) {
	m.returned.GiveUp = reason
	m.asked = reason != "" || m.askedAt >= read //mutant:pg-asked-while-it-is-read
}

// whyAsked adds to the renewals of holds whose rows were written why these are asked to give up. It
// writes nothing, and leaves a failure to the next renewal: no hold is lost because it was asked.
func (s *Store) whyAsked(ctx context.Context, written []*renewal, out []store.Renewal) {
	var all []standing
	var of []*renewal
	for _, r := range written {
		if r.asked != nil && out[r.i].Err == nil {
			all, of = append(all, *r.asked), append(of, r)
		}
	}
	if len(all) == 0 {
		return
	}
	sent := store.Now()
	why, err := s.stand(ctx, all)
	if err != nil {
		return
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	for i, r := range of {
		if reason, stands := why[i]; stands {
			out[r.i].GiveUp = reason
			if r.m != nil {
				r.m.isAsked(reason, sent)
			}
		}
	}
}

// callsYet reports whether an ask still has to call holders.
func (k *asking) callsYet() bool {
	k.claims.mu.Lock()
	defer k.claims.mu.Unlock()
	return k.m.asks != k.c.GiveUp || len(k.m.uncalled) > 0
}
