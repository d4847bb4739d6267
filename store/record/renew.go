package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// Renew implements [store.Store]. It renews each session of the holds once. It reads a record only if the hold may
// have changed, which the call counter of its session shows, and writes one only with new values of its owner.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	if err := ctx.Err(); err != nil {
		for i := range holds {
			out[i].Err = s.failed("renew", holds[i].Name, err)
		}
		return out
	}
	began := store.Now()
	for i := range holds {
		out[i].Err = s.checkRenewal(&holds[i])
	}
	room := make(chan struct{}, maxAbreast)
	var all sync.WaitGroup
	each := func(of map[string][]int) { // the holds of one name are renewed in order
		for _, some := range of {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				for _, i := range some {
					out[i] = s.renewOne(ctx, &holds[i], began)
					out[i].Err = s.failed("renew", holds[i].Name, out[i].Err)
				}
			})
		}
	}
	leave := s.leaving(holds, out)
	all.Go(func() { each(leave) })
	s.renewSessions(ctx, holds, leave)
	of := map[string][]int{}
	for i := range holds {
		h := &holds[i]
		if _, is := leave[h.Name]; is || out[i].Err != nil {
			continue
		}
		if r, asked, done := s.unchanged(h, began); done && !asked && len(of[h.Name]) == 0 {
			out[i] = r
			continue
		}
		of[h.Name] = append(of[h.Name], i)
	}
	each(of)
	all.Wait()
	return out
}

// leaving returns the names whose holds must all leave their sessions now. They need no answer of any session, and
// may have no time to wait for the others' answers.
func (s *Store) leaving(holds []store.Hold, out []store.Renewal) map[string][]int {
	leave, stay := map[string][]int{}, map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range holds {
		h := &holds[i]
		m := s.claims[h.ID]
		switch {
		case out[i].Err != nil:
		case m != nil && m.sess != nil && m.gone == nil && m.moving == nil && m.leaves(h): //mutant:record-waits-for-what-it-leaves
			leave[h.Name] = append(leave[h.Name], i)
		default:
			stay[h.Name] = true
		}
	}
	maps.DeleteFunc(leave, func(name string, _ []int) bool { return stay[name] })
	return leave
}

func (s *Store) checkRenewal(h *store.Hold) error {
	if err := s.bounds.CheckRenewal(h); err != nil {
		return err
	}
	if why, lacks := s.d.Lacks[store.PromiseDetach]; lacks && h.NewID != (store.ID{}) {
		return fmt.Errorf("%w: %s", store.ErrUnsupported, why)
	}
	return nil
}

// renewSessions renews the sessions of the holds, except for the names in leave.
func (s *Store) renewSessions(ctx context.Context, holds []store.Hold, leave map[string][]int) {
	all := map[*session.Session]bool{}
	s.mu.Lock()
	for i := range holds {
		if m := s.claims[holds[i].ID]; m != nil && m.sess != nil && m.gone == nil && leave[holds[i].Name] == nil {
			all[m.sess] = true
			if m.moving != nil {
				all[m.moving] = true
			}
		}
	}
	s.mu.Unlock()
	session.RenewAll(ctx, all)
}

// unchanged returns the renewal of a hold whose record need not be read or written: its session was renewed since
// this renewal began, and was not called. asked: a waiter may ask to give it up.
func (s *Store) unchanged(h *store.Hold, began store.Instant) (r store.Renewal, asked, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.claims[h.ID]
	if m == nil || m.sess == nil || m.moving != nil || m.tellsAnew(h) || m.leaves(h) {
		return r, false, false
	}
	if m.check(); m.gone != nil {
		return r, false, false
	}
	st := m.sess.State()
	if st.Failing || st.Renewed < began { //mutant:record-renewal-is-not-fresh
		return r, false, false
	}
	if st.Calls != m.calls { //mutant:record-call-is-not-heeded
		return r, false, false
	}
	return m.renewedBy(h, st.Lasts, st.Renewed), m.asked, true
}

// why adds to a successful renewal the reason why a waiter asks to give the hold up. It writes nothing, and leaves a
// failure to the next renewal, so that being asked never loses a hold.
func (s *Store) why(ctx context.Context, m *localClaim, h *store.Hold, r store.Renewal, began store.Instant) store.Renewal {
	var now store.Renewal
	if _, err := s.records.look(ctx, h.Name, func(v *view) {
		v.asks = true
		now, _ = v.q.Renew(v.now, h)
	}); err != nil {
		return r //mutant:record-asked-needs-an-answer
	}
	r.GiveUp = now.GiveUp
	s.mu.Lock()
	defer s.mu.Unlock()
	m.returned.GiveUp, m.asked = r.GiveUp, r.GiveUp != "" || m.askedAt >= began //mutant:record-asked-while-it-reads-why
	return r
}

// stillMoving returns the renewal of a hold whose move to another session is still unanswered. Whichever of the two
// has it, the hold lasts as long as both do, if both were renewed since this renewal began and neither was called.
// If a replaced server may have forgotten the hold, it must have been read since as well (law 15).
func (s *Store) stillMoving(m *localClaim, h *store.Hold, began store.Instant, why error) (r store.Renewal, ok bool) {
	if m == nil || errors.Is(why, store.ErrLost) || store.Definite(why) {
		return r, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.moving == nil || m.tellsAnew(h) {
		return r, false
	}
	if m.check(); m.gone != nil {
		return r, false
	}
	from, to := m.sess.State(), m.moving.State()
	if from.Renewed < began || to.Renewed < began { //mutant:record-move-is-not-fresh
		return r, false
	}
	if (from.Suspect || to.Suspect) && m.read < began { //mutant:record-moves-unread-from-a-replaced-server
		return r, false
	}
	if from.Calls != m.calls || to.Calls != m.toCalls { //mutant:record-call-is-not-heeded-in-a-move
		return r, false
	}
	return m.renewedBy(h, min(from.Lasts, to.Lasts), min(from.Renewed, to.Renewed)), true //mutant:record-move-lasts-as-one
}

// A renewing is the result of one run of a renewal.
type renewing struct {
	r     store.Renewal
	calls session.ID // still has the hold, and must be called before another session gets it (law 14)
	there bool       // there is an entry of the old ID
	reads bool       // the next renewal has something to write or to read
	wish  int64      // a minimum hold that has not begun
}

func (s *Store) renewOne(ctx context.Context, h *store.Hold, began store.Instant) store.Renewal {
	adopts := h.NewID != (store.ID{})
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	if err := s.isGone(m); err != nil {
		return store.Renewal{Err: s.whyGone(ctx, m, err)}
	}
	if m == nil && !adopts {
		return store.Renewal{Err: store.ErrLost}
	}
	if adopts && m != nil {
		s.mu.Lock()
		m.reads = true // only a read shows whether it has another id //mutant:record-handed-on-is-read
		s.mu.Unlock()
	}
	if adopts && h.NewID.Process() == (store.Process{}) {
		return s.detach(ctx, m, h)
	}
	if r, asked, done := s.unchanged(h, began); done && asked {
		return s.why(ctx, m, h, r, began)
	}
	now := m // the claim from now on
	if adopts {
		now = s.enter(h.Name, h.NewID, true)
		defer s.exit(now)
		if err := s.isGone(now); err != nil {
			return store.Renewal{Err: s.whyGone(ctx, now, err)}
		}
	}
	sess, err := s.sessionFor(ctx, now, h)
	var kept session.ID
	if err == nil {
		kept, err = s.beginKeep(ctx, m)
	}
	if err != nil {
		return store.Renewal{Err: err}
	}
	if adopts {
		s.adopting(now, h, sess)
	}
	flight, calls := sess.Fresh(), sess.State().Calls
	got := &renewing{}
	if err = s.show(ctx, m, h, sess.ID, kept, got); err != nil {
		if r, ok := s.stillMoving(m, h, began, err); ok {
			return r
		}
		if adopts {
			s.notAdopted(now, got, err)
		}
		return store.Renewal{Err: s.notRenewed(m, got, err)}
	}
	st := s.waitInTime(ctx, m, sess, flight)
	s.mu.Lock()
	defer s.mu.Unlock()
	if adopts {
		s.forget(m)
		m = now
	}
	m.moving, m.shown, m.unsure = nil, true, false
	m.into(sess)
	if m.check(); m.gone != nil {
		return store.Renewal{Err: store.ErrLost}
	}
	out := got.r
	out.TTL, out.From = min(h.TTL, st.Lasts), st.Renewed
	m.waits, m.calls, m.reads, m.ends = false, calls, got.reads, max(m.ends, store.Now().Add(h.TTL)) //mutant:record-called-while-it-renews
	m.asked = out.GiveUp != "" || m.askedAt >= began                                                 // keeps its renewals reading, so that its owner learns when no one asks any more //mutant:record-asked-reads-on
	m.owner, m.used, m.token, m.returned = cmp.Or(h.Owner, m.owner), max(m.used, h.Used, h.Token), h.Token, out
	s.poke()
	return out
}

// show writes a renewal. If a hold comes from another process that has not shown it, its minimum hold begins now:
// the time of its grant is unknown here. If the other process may still have the hold, the hold first gets its new
// ID, and moves to the new session once its old one was called (law 14).
func (s *Store) show(ctx context.Context, m *localClaim, h *store.Hold, in, kept session.ID, got *renewing) error {
	for called := (session.ID{}); ; {
		err := s.records.do(ctx, s.renewal(h, in, kept, called, m == nil, got))
		switch {
		case err == errNeedsKeep:
			kept, err = s.keepFor(ctx, time.Duration(got.wish)*time.Microsecond)
		case err == nil && got.calls != (session.ID{}):
			called = got.calls
			err = s.sessions.Call(ctx, called)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// renewal returns the operation that writes the values of a hold's owner, and the hold's session from now on.
func (s *Store) renewal(h *store.Hold, in, kept, called session.ID, adopted bool, got *renewing) *op {
	o := &op{at: h.Name}
	o.apply = func(v *view) (change queue.Change, err error) {
		*got = renewing{wish: v.wish[h.ID]}
		if e := v.find(h.ID); adopted && got.wish > 0 && kept == (session.ID{}) && e.Token == h.Token && e.Broken == nil {
			return change, errNeedsKeep
		}
		got.r, change = v.q.Renew(v.now, h)
		id := cmp.Or(h.NewID, h.ID)
		if e := v.find(id); got.r.Err == nil && e != nil {
			was, known := v.in[h.ID]
			if !known {
				was = v.in[id] // the renewal was done before, and its reply was lost
			}
			to := in
			if adopted && h.ID.Process() != (store.Process{}) && was != in && was != called { //mutant:record-adopts-uncalled
				to, got.calls = was, was
			}
			delete(v.in, h.ID)
			v.in[id] = to
			if by, is := v.kept[h.ID]; is {
				delete(v.kept, h.ID)
				v.kept[id] = by
			}
			if got.wish > 0 {
				delete(v.wish, h.ID)
				v.wish[id] = got.wish
			}
			v.keep(id, kept)
			got.reads = e.Want > e.Weight || v.of.Shared //mutant:record-shared-hold-is-read-on
			v.asks = true
			s.mu.Lock()
			if m := s.claims[h.ID]; m != nil && o.fresh {
				m.read = store.Now()
			}
			s.mu.Unlock()
		}
		got.there = v.find(h.ID) != nil
		return change, got.r.Err
	}
	return o
}

// notRenewed records why a renewal failed.
func (s *Store) notRenewed(m *localClaim, got *renewing, err error) error {
	if errors.Is(err, store.ErrLost) {
		broken := (*store.LostError)(nil)
		if is := errors.As(err, &broken); is || !got.there {
			s.lost(m, err, is && got.there)
		}
	}
	return err
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return store.Answer{}, err
	}
	m := s.enter(h.Name, h.ID, false)
	defer s.exit(m)
	if err := s.isGone(m); err != nil {
		return store.Answer{}, s.whyGone(ctx, m, err)
	}
	if m != nil {
		s.mu.Lock()
		m.reads = true // its next renewal finds its state
		s.mu.Unlock()
	}
	var a store.Answer
	err := s.records.do(ctx, &op{at: h.Name, apply: func(v *view) (change queue.Change, err error) {
		a, change, err = v.q.Change(v.now, &h, turn, weight)
		v.refused = v.refused || !a.Granted
		return change, err
	}})
	if err != nil {
		return store.Answer{}, s.failed("change the weight of", h.Name, err)
	}
	if h.GiveUp != "" && a.Want > a.Weight && m != nil {
		if m.upgrade != turn { //mutant:record-upgrade-calls-once-ever
			m.upgrade, m.uncalled = turn, nil
		}
		s.callHolders(ctx, m) //mutant:record-upgrade-calls-nobody
	}
	unasked(&a)
	return a, nil
}

// tellsAnew reports whether a renewal has something to write or to read, apart from the session of the hold.
func (m *localClaim) tellsAnew(h *store.Hold) bool {
	return m.reads || m.token == 0 || m.token != h.Token || m.name != h.Name ||
		h.NewID != (store.ID{}) || h.Used > m.used || h.Owner != "" && h.Owner != m.owner
}

// renewedBy returns the renewal of a hold by its sessions alone, with the state last returned to its owner. Store.mu
// is held.
func (m *localClaim) renewedBy(h *store.Hold, lasts time.Duration, from store.Instant) store.Renewal {
	m.ends = max(m.ends, store.Now().Add(h.TTL)) //mutant:record-renewed-hold-is-taken-out
	r := m.returned
	r.TTL, r.From = min(h.TTL, lasts), from
	return r
}
