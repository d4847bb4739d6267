package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Renew implements [store.Store]: one renewal of each session that has any of the
// holds, and beside it a reading of their records, many abreast. Only what its
// owner tells anew is written.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	of := map[string][]int{} // by name: what is of one name is done in its order
	for i := range holds {
		h := &holds[i]
		if err := bounds.CheckRenewal(h); err != nil {
			out[i] = store.Renewal{Err: err, TTL: h.TTL}
			continue
		}
		of[h.Name] = append(of[h.Name], i)
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	next := make(chan []int)
	var all sync.WaitGroup
	for range min(abreast, len(of)) {
		all.Go(func() {
			for name := range next {
				for _, i := range name {
					out[i] = s.renewOne(ctx, &holds[i])
					out[i].TTL = holds[i].TTL
					if err := out[i].Err; err != nil {
						out[i].Err = s.failed(fmt.Sprintf("renew %q", holds[i].Name), err)
					}
				}
			}
		})
	}
	for _, name := range of {
		next <- name
	}
	close(next)
	all.Wait()
	return out
}

func (s *Store) renewOne(ctx context.Context, h *store.Hold) (out store.Renewal) {
	adopt := h.NewID != (store.ID{})
	m := s.hold(h.ID)
	defer s.done(m)
	if out.Err = s.isGone(ctx, m); out.Err != nil {
		return out
	}
	if m == nil && !adopt {
		out.Err = store.ErrLost
		return out
	}
	sess, err := s.sessionOf(ctx, m, h)
	if err != nil {
		out.Err = err
		return out
	}
	var f *flight
	if sess.begun { // it is renewed
		f = s.fresh(sess)
	}
	id := h.ID
	if adopt {
		id = h.NewID
	}
	there := false
	out.Err = s.change(ctx, h.Name, how{fresh: true}, func(r *record) (change queue.Change, err error) {
		out, change = r.q.Renew(r.now, h)
		if out.Err == nil {
			delete(r.lives, h.ID)
			r.lives[id] = sess.id
		}
		there = r.find(h.ID) != nil
		return change, out.Err
	})
	var broken *store.LostError
	if m != nil && errors.Is(out.Err, store.ErrLost) && (!there || errors.As(out.Err, &broken)) {
		s.lost(m, out.Err, there)
	}
	if out.Err != nil {
		return out
	}
	if adopt {
		return s.adopted(ctx, h, m, sess, f, out)
	}
	if out.From, out.Err = s.landed(ctx, sess, f); out.Err != nil {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == gone {
		out.Err = store.ErrLost
		return out
	}
	if m.sess != sess {
		m.into(sess)
	}
	m.state = held
	m.ends = max(m.ends, store.Now().Add(h.TTL))
	return out
}

// sessionOf is the session that is to keep the hold: what is detached has one of
// its own, which nobody renews.
func (s *Store) sessionOf(ctx context.Context, m *mine, h *store.Hold) (*session, error) {
	switch {
	case h.NewID != (store.ID{}) && h.NewID.Process() == (store.Process{}):
		sess := newSession(h.TTL)
		sess.renewed = store.Now()
		return sess, s.makeKey(ctx, sess)
	case h.NewID == (store.ID{}) && m.sess != nil && m.sess.ttl >= h.TTL:
		s.mu.Lock()
		defer s.mu.Unlock()
		return m.sess, nil
	}
	return s.session(ctx, h.TTL)
}

// adopted notes that a hold goes on under another id.
func (s *Store) adopted(ctx context.Context, h *store.Hold, m *mine, sess *session, f *flight, out store.Renewal) store.Renewal {
	if sess.begun {
		if out.From, out.Err = s.landed(ctx, sess, f); out.Err != nil {
			return out
		}
	} else {
		out.From = sess.renewed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m != nil {
		s.leave(m)
	}
	if !sess.begun {
		return out
	}
	n := s.mine[h.NewID]
	if n == nil {
		n = &mine{name: h.Name, id: h.NewID, state: held}
		s.mine[h.NewID] = n
	}
	n.into(sess)
	n.ends = max(n.ends, store.Now().Add(h.TTL))
	s.poke()
	return out
}
