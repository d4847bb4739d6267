package record

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Watch implements [store.Watcher].
func (w WatchStore) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	s := w.Store
	if err := s.b.Listen(ctx, p, s.notified); err != nil {
		return s.failed("listen for", "notifications", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.sink = p, sink
	return nil
}

// WatchName implements [store.NameWatcher], if the backend is a [NameWatcher].
func (s *Store) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	w, ok := s.b.(NameWatcher)
	if !ok {
		return nil, fmt.Errorf("%w: watch %q on %s: it tells nobody what others write", store.ErrUnsupported, name, s.d.Store)
	}
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	if stop, err = w.WatchRecord(ctx, name, changed); err != nil {
		return nil, s.failed("watch", name, err)
	}
	return stop, nil
}

// notified handles a notification, which may be false, late or duplicated. A waiting claim notes it. It is the grant
// only if the session is the claim's present one (law 6).
func (s *Store) notified(n Notification) {
	s.mu.Lock()
	sink, token, block := s.sink, n.Token, n.N
	m := s.claims[n.ID]
	switch {
	case n.ID == (store.ID{}):
	case m == nil || m.name != n.Name:
		sink = nil // the claim is gone
	case n.Token != 0 || n.N != 0:
		if n.Token != 0 && (m.waits || m.rest != nil) && m.gone == nil {
			m.heard = &n
		}
		switch {
		case n.Token == 0:
			sink = nil // the claim still waits
		case m.sess == nil || n.Session != m.sess.ID || m.moving != nil:
			token, block = 0, 0 // a notified process reads //mutant:record-grant-told-of-another-session
		}
		m.takenIn = n.Session
		m.rested()
	case n.Session != (session.ID{}):
		sink = nil // it is for the store only: another entry is ahead now
		if m.gone == nil && m.token == 0 {
			// An operation under way may have seen the record before or after this. So this session is watched in
			// addition to those that the operation finds.
			m.also, m.alsoAt = append(m.also, n.Session), store.Now() //mutant:record-ahead-is-told-meanwhile
			s.watch(m, append(slices.Clone(m.watched), n.Session))
		}
	default:
		m.asked, m.askedAt = true, store.Now() // a waiter may ask to give it up //mutant:record-asked-by-a-notification
	}
	s.mu.Unlock()
	if sink != nil {
		sink(store.Notification{Name: n.Name, ID: n.ID, Token: token, N: block})
	}
}

// rested resumes the ask of a claim that waits for its note to be taken in, if that has happened under the claim's
// session, and not under an earlier one. Store.mu is held.
func (m *localClaim) rested() {
	if m.rest != nil && m.sess != nil && m.takenIn == m.sess.ID { //mutant:record-taken-in-under-another-session
		close(m.rest)
		m.rest = nil
	}
}

// notifications returns those of a write: for claims that were granted, that have another entry ahead, or whose note
// was taken in.
func (a *applied) notifications() (all []Notification) {
	for _, h := range a.granted {
		n := Notification{Name: h.Name, ID: h.ID, Token: h.Token, N: h.N}
		if h.Token != 0 {
			n.Session, n.Asked = a.in[h.ID], a.q.GiveUp(a.now, h.ID) != "" //mutant:record-granted-while-asked-is-told
		}
		all = append(all, n)
	}
	for _, id := range a.taken {
		if e := a.find(id); e != nil && !e.Granted {
			all = append(all, Notification{Name: a.name, ID: id, N: 1, Session: a.in[id]}) //mutant:record-taken-in-is-told
		}
	}
	return append(all, a.ahead...)
}

// elsewhere returns the notifications for other processes.
func (s *Store) elsewhere(a *applied) (all []Notification) {
	if !s.traits.Notifies {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range a.notifications() {
		p := n.ID.Process()
		if p == (store.Process{}) || s.sink != nil && p == s.process {
			continue
		}
		if n.Token == 0 && n.N == 0 && n.Session != (session.ID{}) && !s.records.reportsEnd {
			continue // useless if the server does not report the end of a session
		}
		all = append(all, n)
	}
	return all
}

// deliver passes a record to the claims of this process. wrote: this process has just written it, so notifications
// for this process need no server. Each waiter watches the sessions ahead of it (law 9), if the server reports the
// end of a session. sent is when the request that returned the record was sent: notifications since then may be
// newer.
func (s *Store) deliver(a *applied, sent store.Instant, wrote bool) {
	s.mu.Lock()
	p, watched := s.process, s.sink != nil
	s.mu.Unlock()
	if wrote && watched {
		for _, n := range a.notifications() {
			if n.ID.Process() == p {
				s.notified(n)
			}
		}
	}
	if !s.records.reportsEnd {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range a.q.Entries {
		e := &a.q.Entries[i]
		m := s.claims[e.ID]
		switch {
		case m == nil:
		case e.Granted || m.gone != nil:
			s.unwatch(m)
		default:
			if m.alsoAt < sent {
				m.also = nil
			}
			ahead := a.blocking(e.ID)
			s.watch(m, append(ahead[:min(len(ahead), store.MaxHolders)], m.also...)) // its polls check the others
		}
	}
}

// watch makes a claim watch exactly these sessions, except those of this process, whose end it learns anyway.
// Store.mu is held.
func (s *Store) watch(m *localClaim, in []session.ID) {
	slices.SortFunc(in, func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) })
	in = slices.Compact(in)
	was := m.watched
	m.watched = slices.Clone(in)
	for _, id := range was {
		if !slices.Contains(in, id) { //mutant:record-watched-anew
			s.sessions.Unwatch(id, m.id)
		}
	}
	at := m.name
	for _, id := range in {
		if s.sessions.Own(id) == nil && !slices.Contains(was, id) {
			s.sessions.Watch(id, m.id, func() { s.endedAhead(at) })
		}
	}
}

// endedAhead settles a name after the session of an entry ahead has ended. Claims that this grants, here or
// elsewhere, are notified.
func (s *Store) endedAhead(at string) {
	ctx, cancel := context.WithTimeout(s.ctx, longest)
	defer cancel()
	_ = s.records.settleName(ctx, at) // after a failure the waiter's own polls do it
}
