package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Renew implements [store.Store]: one write for each session that has any of the
// holds, however many, and a reading of those of which something was heard. Only
// what its owner tells anew is written.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	flights := map[*session]*flight{}
	type one struct {
		m *mine
		h *store.Hold
		r *store.Renewal
		f *flight
	}
	var all []one
	for i := range holds {
		h := &holds[i]
		out[i].TTL = h.TTL
		if out[i].Err = s.checkRenewal(h); out[i].Err != nil {
			continue
		}
		m := s.hold(h.ID)
		if m == nil {
			out[i].Err = store.ErrLost
			continue
		}
		defer s.done(m)
		s.mu.Lock()
		state, sess, token := m.state, m.sess, m.token
		s.mu.Unlock()
		if state != held || token != h.Token {
			out[i].Err = store.ErrLost
			continue
		}
		if _, under := flights[sess]; !under {
			flights[sess] = s.fresh(sess)
		}
		if flights[sess] == nil { // no write tells whether all was heard
			s.mu.Lock()
			m.read = false
			s.mu.Unlock()
		}
		all = append(all, one{m, h, &out[i], flights[sess]})
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	for len(all) > 0 {
		n := 0
		var some sync.WaitGroup
		for seen := map[*mine]bool{}; n < min(len(all), inFlight) && !seen[all[n].m]; n++ {
			o := all[n]
			seen[o.m] = true // twice the same one after the other
			renew := func() {
				if o.r.Err = s.landed(ctx, o.f); o.r.Err == nil {
					*o.r = s.renewOne(ctx, o.m, o.h)
				}
			}
			if s.unchanged(o.m, o.h) {
				renew()
			} else {
				some.Go(renew)
			}
		}
		some.Wait()
		all = all[n:]
	}
	for i, h := range holds {
		if err := out[i].Err; err != nil {
			out[i].Err = s.failed(fmt.Sprintf("renew %q", h.Name), err)
		}
	}
	return out
}

// unchanged reports whether nothing has to be read or written for the hold.
func (s *Store) unchanged(m *mine, h *store.Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := m.value
	next.tell(m, h)
	return m.read && next == m.value && !m.full
}

func (s *Store) renewOne(ctx context.Context, m *mine, h *store.Hold) store.Renewal {
	out := store.Renewal{TTL: h.TTL}
	if out.Err = s.settled(ctx, m); out.Err == nil {
		out.Err = s.own(ctx, m)
	}
	if out.Err != nil {
		return out
	}
	s.mu.Lock()
	broken, sess := m.value.Break, m.sess
	next := m.value
	next.tell(m, h)
	news := next != m.value
	s.mu.Unlock()
	if broken != "" {
		out.Err = &store.LostError{Reason: broken}
		return out
	}
	out.Weight, out.Want = m.asked, m.asked
	if m.full || m.drawn { // it depends on the others
		v, err := s.look(ctx, sess, m.name)
		if err != nil {
			out.Err = err
			return out
		}
		r := v.find(h.ID)
		if r == nil {
			s.lost(m)
			out.Err = store.ErrLost
			return out
		}
		if out.Err = s.fence(ctx, m, v, r); out.Err != nil {
			return out
		}
		if out.Weight, out.Want = r.weight, r.wants(); r.upgrading() && !r.upgraded {
			s.mu.Lock()
			s.watchFor(m, v, r)
			s.mu.Unlock()
		}
	}
	if news {
		if _, out.Err = s.rewrite(ctx, m, func(v *value) { v.tell(m, h) }); out.Err != nil {
			return out
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone {
		out.Err = store.ErrLost
		return out
	}
	m.ends = max(m.ends, store.Now().Add(h.TTL))
	out.TTL, out.From, out.Fence = min(h.TTL, m.sess.lasts), m.sess.renewed, m.fence
	return out
}

// tell notes the newest token that was used, and the owner.
func (v *value) tell(m *mine, h *store.Hold) {
	if m.token <= h.Used && h.Used < m.token+int64(m.n) && h.Used > max(v.Used, m.token) {
		v.Used = h.Used
		v.Token = m.token
	}
	v.Owner = cmp.Or(h.Owner, v.Owner)
}

func (s *Store) checkRenewal(h *store.Hold) error {
	if h.NewID != (store.ID{}) {
		return fmt.Errorf("%w: %q: a hold cannot go over to another process: its node ends with the session of its own", store.ErrUnsupported, h.Name)
	}
	return bounds.CheckRenewal(h)
}
